/** Hands a signed transaction to the pool. */
import type { Bytes } from '../engine/primitives/bytes.ts'
import { RpcError } from './errors.ts'
import type { FrontServices } from './services.ts'

/** @throws {RpcError} what the pool has against it */
export async function submit(services: FrontServices, raw: Bytes): Promise<Bytes> {
  const submitted = await services.pool.submit(raw)
  if ('hash' in submitted) return submitted.hash
  throw new RpcError(submitted.error.code, submitted.error.message, submitted.error.data)
}
