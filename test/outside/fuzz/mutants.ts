/**
 * Engines with one fault each. A second copy of the reference engine has an opcode or the journal
 * changed at load time.
 */
import { registerHooks } from 'node:module'
import type { Engine } from '../../../engine/evm/engine.ts'
import { applyEdits, type Edit } from '../../kit/edits.ts'

export type Mutant = { readonly name: string; readonly edits: readonly Edit[] }

const PACKAGE = 'node_modules/@ethereumjs/evm/dist/esm'
const OPCODES = `${PACKAGE}/opcodes/functions.js`
const GAS = `${PACKAGE}/opcodes/gas.js`
const JOURNAL = 'engine/evm/journal/journaled-state.ts'
const TRANSIENT = 'engine/evm/reference/transient.ts'

type Row = readonly [name: string, file: string, find: string, replace: string]

const ROWS: readonly Row[] = [
  [
    'ADDMOD cuts the sum to a word',
    OPCODES,
    'r = mod(a + b, c)',
    'r = mod(mod(a + b, TWO_POW256), c)',
  ],
  [
    'SIGNEXTEND leaves byte 30 alone',
    OPCODES,
    'if (k < BIGINT_31) {',
    'if (k < BIGINT_31 - BIGINT_1) {',
  ],
  [
    'SAR of a negative number loses a sign bit',
    OPCODES,
    'const shiftedOutWidth = BIGINT_255 - a',
    'const shiftedOutWidth = BIGINT_255 - a + 2n',
  ],
  [
    'EXP rounds the bytes of its exponent',
    GAS,
    'byteLength = Math.trunc(byteLength) + 1',
    'byteLength = Math.round(byteLength)',
  ],
  [
    'a STATICCALL may write',
    `${PACKAGE}/interpreter.js`,
    'isStatic: true,',
    'isStatic: this._env.isStatic,',
  ],
  [
    'SSTORE refunds nothing for what is as it was',
    `${PACKAGE}/opcodes/EIP2200.js`,
    'if (equalsBytes(originalStorage, value)) {',
    'if (false) {',
  ],
  [
    'what became warm stays so when it is taken back',
    JOURNAL,
    'change.among.delete(change.key)',
    'change.among',
  ],
  [
    'the original value is that of the first transaction',
    JOURNAL,
    'if (slot.originalOf !== this.#transaction) {',
    'if (slot.originalOf === 0) {',
  ],
  [
    'of transient slots the first change is not taken back',
    TRANSIENT,
    'at >= from; at--',
    'at > from; at--',
  ],
  [
    'who was destroyed and taken back is destroyed all the same',
    JOURNAL,
    'change.on[change.mark] = change.was',
    'change.on',
  ],
  [
    'a storage that is cleared keeps what was read of it',
    JOURNAL,
    'if (!equalBytes(slot.value, ZERO_32)) this.setSlot(entry, slot, ZERO_32)',
    'entry',
  ],
]

/** Both the package and the engine before it check the bound, so both are changed. */
const RETURN_DATA_BOUND: Mutant = {
  name: 'RETURNDATACOPY reads a byte too far',
  edits: [
    {
      file: GAS,
      find: 'if (returnDataOffset + dataLength > runState.interpreter.getReturnDataSize()) {',
      replace:
        'if (returnDataOffset + dataLength > runState.interpreter.getReturnDataSize() + 1n) {',
    },
    {
      file: 'engine/evm/reference/kernel.ts',
      find: '> BigInt(runState.returnBytes.length))',
      replace: '> BigInt(runState.returnBytes.length) + 1n)',
    },
  ],
}

export const MUTANTS: readonly Mutant[] = [
  RETURN_DATA_BOUND,
  ...ROWS.map(([name, file, find, replace]) => ({ name, edits: [{ file, find, replace }] })),
]

const ROOT = new URL('../../../', import.meta.url).href
/** A mutant has its own copies of these modules. */
const OWN = /^(engine\/evm\/(reference|journal)\/|node_modules\/@ethereumjs\/evm\/)/
const REFERENCE = '../../../engine/evm/reference/reference.ts'

/**
 * Loads a copy of the engine. A module that is loaded with a query loads its own imports with the
 * same query.
 */
export async function mutantEngine(mutant: Mutant): Promise<Engine> {
  const query = `?mutant=${encodeURIComponent(mutant.name)}`
  const hooks = registerHooks({
    resolve(specifier, context, nextResolve) {
      const resolved = nextResolve(specifier, context)
      const isWithin = context.parentURL?.endsWith(query) === true
      const isOwn = resolved.url.startsWith(ROOT) && OWN.test(resolved.url.slice(ROOT.length))
      return isWithin && isOwn ? { ...resolved, url: resolved.url + query } : resolved
    },
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context)
      if (!url.endsWith(query)) return loaded
      const file = decodeURI(url.slice(ROOT.length, -query.length))
      return { ...loaded, source: applyEdits(file, String(loaded.source), mutant.edits) }
    },
  })
  try {
    const { makeReferenceEngine } = await import(`${REFERENCE}${query}`)
    return makeReferenceEngine()
  } finally {
    hooks.deregister()
  }
}
