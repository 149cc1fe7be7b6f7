/** What the module asks of the state, and what of it was missing. */
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { MissingError, type StateReader } from '../../state/reader.ts'
import type { CodeCache } from '../code-cache.ts'
import type { Instance } from './instance.ts'

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
  readonly calls: Pick<
    import('./instance.ts').HostCalls,
    'account' | 'slot' | 'hasSlots' | 'code' | 'blockHash'
  >
  /** From here on what is missing is noted, until `end`; before and after it is an error. */
  begin(): void
  /** What was missing, in the order of the questions. */
  end(): readonly string[]
}

export function makeReads(
  instance: Instance,
  options: { readonly reader: () => StateReader; readonly codes: CodeCache },
): Reads {
  const { layout, exports } = instance
  const { reader, codes } = options
  let noted: Set<string> | undefined
  let isRunning = false
  const answer = layout.ANSWER >> 2

  function miss(what: string): typeof READ.missing {
    if (!isRunning) throw new MissingError(what)
    noted ??= new Set()
    noted.add(what)
    if (noted.size >= MOST_MISSING) throw new Ended('missing')
    return READ.missing
  }
  const isMissed = (what: string) => noted?.has(what) === true
  const address = () => bytesToHex(instance.slice(layout.ASKED, 20))

  return {
    begin() {
      noted = undefined
      isRunning = true
    },
    end() {
      isRunning = false
      const missing = noted === undefined ? [] : [...noted]
      noted = undefined
      return missing
    },
    calls: {
      account() {
        if (noted !== undefined && isMissed(`account ${address()}`)) return READ.missing
        const presence = reader().account(instance.asked.address, instance.words, answer)
        return presence === 'missing' ? miss(`account ${address()}`) : READ[presence]
      },
      slot() {
        const what = () => `slot ${bytesToHex(instance.slice(layout.ASKED + 32, 32))} of ${address()}`
        if (noted !== undefined && isMissed(what())) return READ.missing
        const { asked } = instance
        const presence = reader().slot(asked.address, asked.key, instance.words, answer)
        return presence === 'missing' ? miss(what()) : READ[presence]
      },
      hasSlots: () => (reader().hasSlots(instance.asked.address) ? 1 : 0),
      code() {
        const hash = instance.asked.hash.slice()
        const code = codes.get(hash) ?? reader().code(hash)
        if (code === 'missing') {
          miss(`code ${bytesToHex(hash)}`)
          return 0
        }
        codes.set(hash, code)
        return putCode(instance, code)
      },
      blockHash(low, high) {
        const number = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0)
        const hash = reader().blockHash(number)
        if (hash === undefined) return READ.absent
        if (hash === 'missing') return miss(`hash of block ${number}`)
        instance.bytes.set(hash, layout.ANSWER)
        return READ.present
      },
    },
  }

  function putCode(to: Instance, code: Bytes): number {
    const entry = exports.newCode(code.length)
    to.bytes.set(code, entry + layout.C_BYTES)
    return entry
  }
}
