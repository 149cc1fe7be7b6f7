/** What precompiled contracts compute in WebAssembly: a module of its own, for every engine. */
export { blake2fBegin, blake2fEnd, blake2fInput, blake2fOutput, blake2fRounds } from './blake2f'
export { powerBegin, powerBuffer, powerEnd, powerStep } from './power'
