/** Serves the module's state reads, and records missing keys. */
import type { Bytes } from '../../primitives/bytes.ts'
import {
  describeMissing,
  MissingError,
  type MissingKey,
  type StateReader,
} from '../../state/reader.ts'
import type { CodeCache } from '../code-cache.ts'
import { type Limits, LOST_GAS } from '../engine.ts'
import type { HostCalls, Instance } from './instance.ts'

/** Maximum missing keys before a run ends. */
export const MAX_MISSING = 256

const READ = { absent: 0, present: 1, missing: 2 } as const

/** Ends a run from inside; not a failure of the engine. */
export class Ended extends Error {
  override name = 'Ended'
  readonly why: 'fuel' | 'deadline' | 'memory' | 'missing'
  constructor(why: 'fuel' | 'deadline' | 'memory' | 'missing') {
    super(`ended by ${why}`)
    this.why = why
  }
}

export type Reads = {
  readonly calls: Pick<HostCalls, 'account' | 'slot' | 'hasSlots' | 'code' | 'blockHash'>
  /** Records missing keys until `end`; outside of a run a missing key is an error. */
  start(limits: Limits): void
  /** Returns the missing keys in the order of the reads. */
  end(): readonly MissingKey[]
}

export function makeReads(
  instance: Instance,
  options: { readonly reader: () => StateReader; readonly codes: CodeCache },
): Reads {
  const { layout } = instance
  const { reader, codes } = options
  const responseWord = layout.ANSWER >> 2
  /** Missing keys by their description. A key that was missing once stays missing for the run. */
  let recorded: Map<string, MissingKey> | undefined
  /** Limits of the current run; undefined outside of a run. */
  let running: Limits | undefined

  function miss(key: MissingKey): typeof READ.missing {
    if (running === undefined) throw new MissingError(key)
    recorded ??= new Map()
    recorded.set(describeMissing(key), key)
    if (recorded.size >= MAX_MISSING) throw new Ended('missing')
    return READ.missing
  }
  const isMissed = (key: () => MissingKey) => recorded?.has(describeMissing(key())) === true
  const account = () => requestedAccount(instance)
  const slot = () => requestedSlot(instance)

  return {
    start(limits) {
      recorded = undefined
      running = limits
    },
    end() {
      running = undefined
      const missing = recorded === undefined ? [] : [...recorded.values()]
      recorded = undefined
      return missing
    },
    calls: {
      account() {
        if (isMissed(account)) return READ.missing
        const presence = reader().account(instance.requested.address, instance.words, responseWord)
        if (running?.isLost?.() === true) capGas(instance)
        return presence === 'missing' ? miss(account()) : READ[presence]
      },
      slot() {
        if (isMissed(slot)) return READ.missing
        const { requested: request } = instance
        const presence = reader().slot(request.address, request.key, instance.words, responseWord)
        if (running?.isLost?.() === true) capGas(instance)
        return presence === 'missing' ? miss(slot()) : READ[presence]
      },
      hasSlots: () => (reader().hasSlots(instance.requested.address) ? 1 : 0),
      code() {
        const hash = instance.requested.hash.slice()
        const code = codes.get(hash) ?? reader().code(hash)
        if (code === 'missing') {
          miss({ kind: 'code', hash })
          return 0
        }
        codes.set(hash, code)
        return putCode(instance, code)
      },
      blockHash(low, high) {
        const number = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
        const hash = reader().blockHash(number)
        if (hash === undefined) return READ.absent
        if (hash === 'missing') return miss({ kind: 'blockHash', number })
        instance.bytes.set(hash, layout.ANSWER)
        return READ.present
      },
    },
  }
}

/** Caps the gas of the frame that reads, whose gas is in the register at this moment. */
export function capGas({ exports }: Instance): void {
  if (exports.gas.value > LOST_GAS) exports.gas.value = LOST_GAS
}

const requestedAccount = (instance: Instance): MissingKey => ({
  kind: 'account',
  address: instance.slice(instance.layout.ASKED, 20),
})
const requestedSlot = (instance: Instance): MissingKey => ({
  kind: 'slot',
  address: instance.slice(instance.layout.ASKED, 20),
  key: instance.slice(instance.layout.ASKED + 32, 32),
})

/**
 * Writes code to an entry of the module.
 * @returns the entry's pointer
 */
function putCode(instance: Instance, code: Bytes): number {
  const entry = instance.exports.newCode(code.length)
  instance.bytes.set(code, entry + instance.layout.C_BYTES)
  return entry
}
