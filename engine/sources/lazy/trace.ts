/**
 * Finds the keys that a canonical block touches before its execution here. The upstream's own trace
 * names all of them in one round.
 */

import type { Bytes, Hex } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { field, isObject, Refusal, readArray, readBytes } from '../../primitives/json-fields.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import type { CallOptions } from '../upstream/messages.ts'
import { nameOf, type StateKey } from './calls.ts'

export interface Tracer {
  /**
   * Returns accounts and slots that the block reads or writes, at most `max`; undefined: no trace.
   * A failure of the upstream does not throw.
   */
  keysOf(hash: Hex, max: number, options?: CallOptions): Promise<readonly StateKey[] | undefined>
}

/**
 * Makes a tracer. An upstream that refuses is not asked again. Traced values are not used, because
 * all values are fetched the same way.
 */
export function createTracer(upstream: Pick<Upstream, 'call'>): Tracer {
  let isRefused = false
  return {
    async keysOf(hash, max, options = {}) {
      if (isRefused) return undefined
      const params = [hash, { tracer: 'prestateTracer', timeout: TRACE_TIMEOUT }]
      try {
        return keysIn(await upstream.call('debug_traceBlockByHash', params, options), max)
      } catch (error) {
        if (error instanceof Refusal) isRefused = true
        else if (!(error instanceof UpstreamError)) throw error
        else if (error.kind === 'refused') isRefused = !isForLater(error)
        return undefined
      }
    },
  }
}

/** Whether the upstream may have the block later; a missing method stays missing. */
const isForLater = ({ fault }: UpstreamError): boolean =>
  fault !== undefined &&
  !REFUSED_CODES.has(fault.code) &&
  /not found|unknown block/i.test(fault.message)
const REFUSED_CODES: ReadonlySet<number> = new Set([-32_601, -32_604])
const TRACE_TIMEOUT = '2s'

/** @throws {Refusal} */
function keysIn(json: unknown, max: number): readonly StateKey[] {
  const keys = new Map<string, StateKey>()
  const add = (key: StateKey) => {
    if (keys.size < max) keys.set(nameOf(key), key)
  }
  for (const one of readArray(json, 'trace')) {
    const result = isObject(one) ? field(one, 'result') : undefined
    if (!isObject(result)) throw new Refusal('trace.result', 'an object')
    for (const [name, account] of Object.entries(result)) {
      const address = readBytes(name, 'trace.result', 20)
      add({ kind: 'account', address })
      const storage = isObject(account) ? field(account, 'storage') : undefined
      if (isObject(storage))
        for (const key of Object.keys(storage)) add({ kind: 'slot', address, key: slotOf(key) })
    }
  }
  return [...keys.values()]
}

function slotOf(key: string): Bytes {
  const digits = key.replace(/^0x/, '')
  if (!/^[0-9a-f]{1,64}$/i.test(digits)) throw new Refusal('trace.result.storage', 'slots', key)
  return hexToBytes(`0x${digits.padStart(64, '0')}`)
}
