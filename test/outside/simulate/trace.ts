/** Formats an event of the writer with its effects as one line. */
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { WriterEffect, WriterEvent } from '../../../engine/sources/writer/types.ts'

export function lineOf(
  nowMs: number,
  event: WriterEvent,
  effects: readonly WriterEffect[],
): string {
  const texts = effects.map(effectText).filter((text) => text !== '')
  return `${nowMs} ${eventText(event)}: ${texts.join(', ')}`
}

function eventText(event: WriterEvent): string {
  switch (event.type) {
    case 'packet': {
      const { message, feed } = event.packet
      const { payloadId } = message
      if (message.type === 'end') return `feed ${feed} end of ${short(payloadId)}`
      const { base, index, delta, targetIndex } = message
      const on = base === undefined ? '' : ` of ${base.blockNumber} on ${name(base.parentHash)}`
      return `feed ${feed} ${short(payloadId)} ${index}/${targetIndex}${on} ${delta.transactions.length} txs`
    }
    case 'sealed':
      return `sealed ${event.block.number} ${name(event.block.hash)} on ${name(event.block.parentHash)}`
    case 'answer':
      return `persistence thread ${event.response.type}${'number' in event.response ? ` ${event.response.number}` : ''}`
    case 'feed':
      return `feed ${event.feed} ${event.isConnected ? 'connected' : 'lost'}`
    case 'marks':
      return `marks ${event.safe} ${event.finalized}`
    default:
      return event.type
  }
}

function effectText(effect: WriterEffect): string {
  switch (effect.type) {
    case 'count':
      return effect.what
    case 'persistence':
      return `-> ${effect.request.type}`
    case 'published':
      return `SHOWN ${effect.canonical} ${effect.complete} ${effect.pending}.${effect.index}`
    case 'sealed':
      return `canonical ${effect.number} ${name(effect.hash)}`
    case 'refused':
      return `REFUSED ${effect.number} ${name(effect.hash)} ${effect.field}`
    case 'warning':
    case 'halted':
      return `"${effect.message}"`
    default:
      return effect.type
  }
}

const name = (hash: Uint8Array | undefined) => (hash ? bytesToHex(hash).slice(2, 8) : '?')
const short = (payloadId: string) => payloadId.replace(/^0x030*/, 'P')
