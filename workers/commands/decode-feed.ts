/** Feed messages as JSON lines: {id, frame, base64} in, {id, message} or {id, refuse} out, one answer a line. */
import { createInterface } from 'node:readline'
import { type DecodedPacket, decodePacket } from '../../engine/flashblocks/codec.ts'
import { flashblockJson } from '../../engine/flashblocks/json.ts'
import { decodeSideData, type FeedSideData } from '../../engine/flashblocks/metadata.ts'
import type { Flashblock } from '../../engine/flashblocks/types.ts'

/** The answer to one line of input; a line that is no request is refused with what a request looks like. */
export function answerLine(line: string): string {
  const request = decodeRequest(line)
  if (!request) return JSON.stringify({ id: null, refuse: 'expected {"id", "frame", "base64"}' })
  const { id, base64 } = request
  return JSON.stringify({ id, ...answerPacket(decodePacket(Buffer.from(base64, 'base64'))) })
}

function decodeRequest(line: string): { id: unknown; base64: string } | undefined {
  try {
    const request: unknown = JSON.parse(line)
    if (typeof request !== 'object' || request === null || !('base64' in request)) return undefined
    if (typeof request.base64 !== 'string') return undefined
    return { id: 'id' in request ? request.id : null, base64: request.base64 }
  } catch {
    return undefined
  }
}

/** The wire's names, normalised: lower case, minimal quantities, null for what is absent. */
function answerPacket(decoded: DecodedPacket): { message: unknown } | { refuse: string } {
  if ('refuse' in decoded) return { refuse: decoded.refuse }
  if ('ignore' in decoded) return { message: { kind: 'skip' } }
  const { message } = decoded
  if (message.type === 'end') return { message: { kind: 'end', payload_id: message.payloadId } }
  const side = decodeSideData(decoded.metadata ?? {})
  return 'refuse' in side ? side : { message: normalised(message, side.sides) }
}

function normalised(flashblock: Flashblock, sides: FeedSideData) {
  const json = flashblockJson(flashblock)
  return {
    kind: 'payload',
    ...json,
    base: json.base ?? null,
    diff: {
      ...json.diff,
      blob_gas_used: json.diff.blob_gas_used ?? null,
    },
    metadata: {
      block_number: json.metadata?.block_number ?? null,
      receipts: sides.receipts,
      new_account_balances: sides.newAccountBalances,
      access_list: sides.accessList,
    },
  }
}

if (import.meta.main)
  for await (const line of createInterface({ input: process.stdin }))
    process.stdout.write(`${answerLine(line)}\n`)
