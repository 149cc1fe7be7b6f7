/** callTracer: the tree of calls, optionally with logs. */
import { type Frame, Frames, type PacketLog } from './frames.ts'
import { hexText, quantityText, stringText, switches, writeHex } from './json.ts'
import type { TraceContext, TraceOutput, Tracer } from './types.ts'

export function callTracer(config: unknown, { firstLog, budget, output }: TraceContext): Tracer {
  const { onlyTopCall, withLog } = switches(config, ['onlyTopCall', 'withLog'])
  const frames = new Frames({ onlyTop: onlyTopCall, withLogs: withLog, firstLog, budget })
  return {
    sink: frames.sink,
    start: (scene) => frames.start(scene),
    end: (gasUsed) => frames.end(gasUsed),
    writeResult: () => writeFrame(output, frames.top),
  }
}

function writeFrame(to: TraceOutput, frame: Frame): void {
  const { kind, gas, gasUsed, output, error, revertReason } = frame
  to.write(
    `{"from":${hexText(frame.from)},"gas":${quantityText(gas)},"gasUsed":${quantityText(gasUsed)}` +
      `${frame.to === undefined ? '' : `,"to":${hexText(frame.to)}`},"input":`,
  )
  writeHex(to, frame.input)
  if (output.length > 0) {
    to.write(',"output":')
    writeHex(to, output)
  }
  if (error !== undefined) to.write(`,"error":${stringText(error)}`)
  if (revertReason !== undefined && revertReason !== '')
    to.write(`,"revertReason":${stringText(revertReason)}`)
  writeList(to, '"calls"', frame.calls, writeFrame)
  writeList(to, '"logs"', frame.logs, writeLog)
  // A static call has no value field, rather than a value of zero.
  if (kind !== 'STATICCALL') to.write(`,"value":${quantityText(frame.value)}`)
  to.write(`,"type":"${kind}"}`)
}

function writeLog(to: TraceOutput, { address, topics, data, index, position }: PacketLog): void {
  to.write(`{"address":${hexText(address)},"topics":[${topics.map(hexText).join(',')}],"data":`)
  writeHex(to, data)
  to.write(`,"index":${quantityText(index)},"position":${quantityText(position)}}`)
}

/** Writes a further member, unless the list is empty. */
function writeList<T>(
  to: TraceOutput,
  name: string,
  list: readonly T[],
  write: (to: TraceOutput, item: T) => void,
): void {
  for (const [index, item] of list.entries()) {
    to.write(index === 0 ? `,${name}:[` : ',')
    write(to, item)
  }
  if (list.length > 0) to.write(']')
}
