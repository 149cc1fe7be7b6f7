/** What the module asks of the state, and what of it was missing. */
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

/** Keys that a run may miss before it ends. */
export const MOST_MISSING = 256

const READ = { absent: 0, present: 1, missing: 2 } as const

/** Ends a run from inside: not an error of the engine's. */
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
  /** From here on what is missing is noted, until `end`; before and after it is an error. */
  begin(limits: Limits): void
  /** What was missing, in the order of the questions. */
  end(): readonly MissingKey[]
}

export function makeReads(
  instance: Instance,
  options: { readonly reader: () => StateReader; readonly codes: CodeCache },
): Reads {
  const { layout } = instance
  const { reader, codes } = options
  const answer = layout.ANSWER >> 2
  /** By their words. What was missing once stays so for the run. */
  let noted: Map<string, MissingKey> | undefined
  /** undefined: no run. */
  let running: Limits | undefined

  function miss(key: MissingKey): typeof READ.missing {
    if (running === undefined) throw new MissingError(key)
    noted ??= new Map()
    noted.set(describeMissing(key), key)
    if (noted.size >= MOST_MISSING) throw new Ended('missing')
    return READ.missing
  }
  const isMissed = (key: () => MissingKey): boolean => noted?.has(describeMissing(key())) === true
  const account = () => askedAccount(instance)
  const slot = () => askedSlot(instance)

  return {
    begin(limits) {
      noted = undefined
      running = limits
    },
    end() {
      running = undefined
      const missing = noted === undefined ? [] : [...noted.values()]
      noted = undefined
      return missing
    },
    calls: {
      account() {
        if (isMissed(account)) return READ.missing
        const presence = reader().account(instance.asked.address, instance.words, answer)
        if (running?.isLost?.() === true) capGas(instance)
        return presence === 'missing' ? miss(account()) : READ[presence]
      },
      slot() {
        if (isMissed(slot)) return READ.missing
        const { asked } = instance
        const presence = reader().slot(asked.address, asked.key, instance.words, answer)
        if (running?.isLost?.() === true) capGas(instance)
        return presence === 'missing' ? miss(slot()) : READ[presence]
      },
      hasSlots: () => (reader().hasSlots(instance.asked.address) ? 1 : 0),
      code() {
        const hash = instance.asked.hash.slice()
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

/** Of the frame that reads, which has its gas in the register then. */
export function capGas({ exports }: Instance): void {
  if (exports.gas.value > LOST_GAS) exports.gas.value = LOST_GAS
}

const askedAccount = (instance: Instance): MissingKey => ({
  kind: 'account',
  address: instance.slice(instance.layout.ASKED, 20),
})
const askedSlot = (instance: Instance): MissingKey => ({
  kind: 'slot',
  address: instance.slice(instance.layout.ASKED, 20),
  key: instance.slice(instance.layout.ASKED + 32, 32),
})

/** An entry of the module's with the bytes: its pointer. */
function putCode(instance: Instance, code: Bytes): number {
  const entry = instance.exports.newCode(code.length)
  instance.bytes.set(code, entry + instance.layout.C_BYTES)
  return entry
}
