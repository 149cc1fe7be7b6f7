/** Exports of precompiled contracts, compiled to a separate module for all engines. */
export { blake2fBegin, blake2fEnd, blake2fInput, blake2fOutput, blake2fRounds } from './blake2f'
export { powerBegin, powerBuffer, powerEnd, powerStep } from './power'
