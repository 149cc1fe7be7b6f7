/** Hands a signed transaction to the txpool. */
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import type { FrontContext } from '../../method/method.ts'
import { errorOf } from '../../seam/errors.ts'

/** @throws {RpcError} what the txpool has against it */
export async function submit(
  { services, client }: Pick<FrontContext, 'services' | 'client'>,
  raw: Bytes,
): Promise<Bytes> {
  const submitted = await services.transactions.submit(raw, client)
  if ('hash' in submitted) return submitted.hash
  throw errorOf(submitted.error)
}
