/** callTracer: the tree of calls, optionally with logs. */
import { switches } from './config.ts'
import { type Frame, type FrameLog, Frames } from './frames.ts'
import { hexText, Pieces, quantityText, stringText } from './json.ts'
import type { TraceContext, Tracer } from './types.ts'

export function callTracer(config: unknown, { firstLog, budget }: TraceContext): Tracer {
  const { onlyTopCall, withLog } = switches(config, ['onlyTopCall', 'withLog'])
  const frames = new Frames({ onlyTop: onlyTopCall, withLogs: withLog, firstLog, budget })
  return {
    sink: frames.sink,
    start: (scene) => frames.start(scene),
    end: (gasUsed) => frames.end(gasUsed),
    result() {
      const pieces = new Pieces()
      writeFrame(pieces, frames.top)
      return pieces.take()
    },
  }
}

function writeFrame(pieces: Pieces, frame: Frame): void {
  const { kind, from, to, value, gas, gasUsed, input, output, error, revertReason } = frame
  pieces.push(
    `{"from":${hexText(from)},"gas":${quantityText(gas)},"gasUsed":${quantityText(gasUsed)}` +
      `${to === undefined ? '' : `,"to":${hexText(to)}`},"input":${hexText(input)}` +
      (output.length === 0 ? '' : `,"output":${hexText(output)}`) +
      (error === undefined ? '' : `,"error":${stringText(error)}`) +
      (revertReason === undefined || revertReason === ''
        ? ''
        : `,"revertReason":${stringText(revertReason)}`),
  )
  for (const [index, call] of frame.calls.entries()) {
    pieces.push(index === 0 ? ',"calls":[' : ',')
    writeFrame(pieces, call)
  }
  if (frame.calls.length > 0) pieces.push(']')
  if (frame.logs.length > 0) pieces.push(`,"logs":[${frame.logs.map(logText).join(',')}]`)
  // A static call has no value, not one of zero.
  if (kind !== 'STATICCALL') pieces.push(`,"value":${quantityText(value)}`)
  pieces.push(`,"type":"${kind}"}`)
}

const logText = ({ address, topics, data, index, position }: FrameLog): string =>
  `{"address":${hexText(address)},"topics":[${topics.map(hexText).join(',')}],"data":${hexText(data)},` +
  `"index":${quantityText(index)},"position":${quantityText(position)}}`
