/**
 * Decodes feed messages as JSON lines, one response for each: {id, frame, base64} becomes {id,
 * message} or {id, refuse}.
 */
import { createInterface } from 'node:readline'
import { type DecodedPacket, decodePacket } from '../../engine/flashblocks/codec.ts'
import { flashblockJson } from '../../engine/flashblocks/json.ts'
import { decodeSideData, type FeedSideData } from '../../engine/flashblocks/metadata.ts'
import type { Flashblock } from '../../engine/flashblocks/types.ts'

/** Responds to one line of input; an invalid line gets a refusal that names the expected format. */
export function responseLine(line: string): string {
  const request = decodeRequest(line)
  if (!request) return JSON.stringify({ id: null, refuse: 'expected {"id", "frame", "base64"}' })
  const { id, base64 } = request
  return JSON.stringify({ id, ...responsePacket(decodePacket(Buffer.from(base64, 'base64'))) })
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

/**
 * Formats a message with the names of the wire: lower case, minimal quantities, null for absent
 * fields.
 */
function responsePacket(decoded: DecodedPacket): { message: unknown } | { refuse: string } {
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
    process.stdout.write(`${responseLine(line)}\n`)
