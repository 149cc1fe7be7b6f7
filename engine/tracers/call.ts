/** callTracer: the tree of calls, optionally with logs. */
import { type Frame, Frames, type PacketLog } from './frames.ts'
import { hexText, quantityText, stringText, switches, writeHex } from './json.ts'
import type { TraceContext, TraceOutput, Tracer } from './types.ts'

/**
 * Creates the tracer for one transaction or call. The result is the JSON of the top frame.
 * @param config object with the switches `onlyTopCall` and `withLog`, false by default
 * @throws {TracerError} for an invalid configuration
 */
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

function writeFrame(out: TraceOutput, frame: Frame): void {
  const { kind, gas, gasUsed, output, error, revertReason } = frame
  out.write(
    `{"from":${hexText(frame.from)},"gas":${quantityText(gas)},"gasUsed":${quantityText(gasUsed)}` +
      `${frame.to === undefined ? '' : `,"to":${hexText(frame.to)}`},"input":`,
  )
  writeHex(out, frame.input)
  if (output.length > 0) {
    out.write(',"output":')
    writeHex(out, output)
  }
  if (error !== undefined) out.write(`,"error":${stringText(error)}`)
  if (revertReason !== undefined && revertReason !== '')
    out.write(`,"revertReason":${stringText(revertReason)}`)
  writeList(out, '"calls"', frame.calls, writeFrame)
  writeList(out, '"logs"', frame.logs, writeLog)
  // A static call has no value field, rather than a value of zero.
  if (kind !== 'STATICCALL') out.write(`,"value":${quantityText(frame.value)}`)
  out.write(`,"type":"${kind}"}`)
}

function writeLog(out: TraceOutput, { address, topics, data, index, position }: PacketLog): void {
  out.write(`{"address":${hexText(address)},"topics":[${topics.map(hexText).join(',')}],"data":`)
  writeHex(out, data)
  out.write(`,"index":${quantityText(index)},"position":${quantityText(position)}}`)
}

/**
 * Writes a list as a member of an object that already has a member. An empty list is left out.
 * @param name name of the member with its JSON quotes
 */
function writeList<T>(
  out: TraceOutput,
  name: string,
  list: readonly T[],
  write: (out: TraceOutput, item: T) => void,
): void {
  for (const [index, item] of list.entries()) {
    out.write(index === 0 ? `,${name}:[` : ',')
    write(out, item)
  }
  if (list.length > 0) out.write(']')
}
