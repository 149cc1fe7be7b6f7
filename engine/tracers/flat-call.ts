/** flatCallTracer: the calls as a list in Parity's form. */
import { bytesToHex } from '../primitives/hex.ts'
import { type Frame, Frames } from './frames.ts'
import { hexText, quantityText, stringText, switches } from './json.ts'
import type { TraceContext, TraceLocation, Tracer } from './types.ts'

export function flatCallTracer(config: unknown, context: TraceContext): Tracer {
  const { convertParityErrors, includePrecompiles } = switches(config, [
    'convertParityErrors',
    'includePrecompiles',
  ])
  const isPrecompile = ({ kind, to }: Frame) =>
    (kind === 'CALL' || kind === 'STATICCALL') &&
    to !== undefined &&
    context.precompiles.has(bytesToHex(to))
  const frames = new Frames({
    onlyTop: false,
    withLogs: false,
    firstLog: 0,
    budget: context.budget,
    ...(includePrecompiles ? {} : { isIncluded: (frame: Frame) => !isPrecompile(frame) }),
  })
  return {
    sink: frames.sink,
    start: (scene) => frames.start(scene),
    end: (gasUsed) => frames.end(gasUsed),
    writeResult() {
      const { output } = context
      const location = locationText(context.location)
      const write = (frame: Frame, address: readonly number[]) => {
        output.write(
          (address.length === 0 ? '[' : ',') +
            traceText(frame, { address, location, convertsErrors: convertParityErrors }),
        )
        for (const [index, call] of frame.calls.entries()) write(call, [...address, index])
      }
      write(frames.top, [])
      output.write(']')
    },
  }
}

/**
 * Members that all traces share, split because other members come between them in the order of
 * names.
 */
type LocationText = { readonly block: string; readonly transaction: string }

const locationText = (location: TraceLocation | undefined): LocationText =>
  location === undefined
    ? {
        block: '"blockHash":null,"blockNumber":0',
        transaction: '"transactionHash":null,"transactionPosition":0',
      }
    : {
        block: `"blockHash":${hexText(location.blockHash)},"blockNumber":${location.blockNumber}`,
        transaction: `"transactionHash":${hexText(location.transactionHash)},"transactionPosition":${location.transactionIndex}`,
      }

function traceText(
  frame: Frame,
  options: {
    readonly address: readonly number[]
    readonly location: LocationText
    readonly convertsErrors: boolean
  },
): string {
  const { address, location, convertsErrors } = options
  const { error } = frame
  const { action, result, type } = partsOf(frame)
  // Only a revert has a result among failures, because its output is useful.
  const hasResult = result !== '' && (error === undefined || error === 'execution reverted')
  return (
    `{"action":{${action}},${location.block}` +
    (error === undefined
      ? ''
      : `,"error":${stringText(convertsErrors ? parityError(error) : error)}`) +
    (hasResult ? `,"result":{${result}}` : '') +
    `,"subtraces":${frame.calls.length},"traceAddress":[${address.join(',')}],${location.transaction},"type":"${type}"}`
  )
}

function partsOf(frame: Frame): {
  readonly action: string
  readonly result: string
  readonly type: string
} {
  const { kind, from, to, value, gas, gasUsed, input, output } = frame
  const used = `"gasUsed":${quantityText(gasUsed)}`
  if (kind === 'SELFDESTRUCT')
    return {
      type: 'suicide',
      action: `"address":${hexText(from)},"balance":${quantityText(value)},"refundAddress":${hexText(to!)}`,
      result: '',
    }
  if (kind === 'CREATE' || kind === 'CREATE2')
    return {
      type: 'create',
      action: `"creationMethod":"${kind.toLowerCase()}","from":${hexText(from)},"gas":${quantityText(gas)},"init":${hexText(input)},"value":${quantityText(value)}`,
      result: `${to === undefined ? '' : `"address":${hexText(to)},`}"code":${hexText(output)},${used}`,
    }
  return {
    type: 'call',
    action:
      `"callType":"${kind.toLowerCase()}","from":${hexText(from)},"gas":${quantityText(gas)},` +
      `"input":${hexText(input)},"to":${hexText(to!)},"value":${quantityText(value)}`,
    result: `${used},"output":${hexText(output)}`,
  }
}

function parityError(error: string): string {
  const exact = PARITY_ERRORS[error]
  if (exact !== undefined) return exact
  if (error.startsWith('out of gas:')) return 'Out of gas'
  if (error.startsWith('invalid opcode:')) return 'Bad instruction'
  return error.startsWith('stack underflow') ? 'Stack underflow' : error
}

const PARITY_ERRORS: Readonly<Record<string, string>> = {
  'contract creation code storage out of gas': 'Out of gas',
  'out of gas': 'Out of gas',
  'gas uint64 overflow': 'Out of gas',
  'max code size exceeded': 'Out of gas',
  'invalid jump destination': 'Bad jump destination',
  'execution reverted': 'Reverted',
  'return data out of bounds': 'Out of bounds',
  'stack limit reached 1024 (1023)': 'Out of stack',
  'precompiled failed': 'Built-in failed',
  'invalid input length': 'Built-in failed',
}
