/** What a canonical block touches, before it is executed here: the upstream's own trace names the keys, all of them in one round. */

import type { Bytes, Hex } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { field, isObject, Refusal, readArray, readBytes } from '../../primitives/json-fields.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/error.ts'
import type { CallOptions } from '../upstream/transport.ts'
import { nameOf, type StateKey } from './calls.ts'

export interface Tracer {
  /** Accounts and slots that the block reads or writes, at most so many; undefined: the upstream does not say. Never throws for an upstream. */
  keysOf(hash: Hex, most: number, options?: CallOptions): Promise<readonly StateKey[] | undefined>
}

/** One that refuses is not asked again. Nothing of its values is taken: they are fetched as all others are. */
export function createTracer(upstream: Pick<Upstream, 'call'>): Tracer {
  let isRefused = false
  return {
    async keysOf(hash, most, options = {}) {
      if (isRefused) return undefined
      const params = [hash, { tracer: 'prestateTracer', timeout: TRACE_TIMEOUT }]
      try {
        return keysIn(await upstream.call('debug_traceBlockByHash', params, options), most)
      } catch (error) {
        if (error instanceof Refusal) isRefused = true
        else if (!(error instanceof UpstreamError)) throw error
        else if (error.kind === 'refused') isRefused = !isForLater(error)
        return undefined
      }
    },
  }
}

/** It may not have the block yet; a method that it does not have it will not have later. */
const isForLater = ({ fault }: UpstreamError): boolean =>
  fault !== undefined &&
  !REFUSED_CODES.has(fault.code) &&
  /not found|unknown block/i.test(fault.message)
const REFUSED_CODES: ReadonlySet<number> = new Set([-32_601, -32_604])
const TRACE_TIMEOUT = '2s'

/** @throws {Refusal} */
function keysIn(json: unknown, most: number): readonly StateKey[] {
  const keys = new Map<string, StateKey>()
  const add = (key: StateKey) => {
    if (keys.size < most) keys.set(nameOf(key), key)
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
