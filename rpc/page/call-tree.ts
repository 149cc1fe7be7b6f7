/** The call tree of a transaction, from `callTracer`. */
import { decodeCalldata } from './calldata.ts'
import { amount, ends, short } from './format.ts'
import { html, type View } from './view.ts'

export type TracedCall = {
  readonly type: string
  readonly from: string
  readonly to?: string
  readonly value?: string
  readonly gas: string
  readonly gasUsed: string
  readonly input: string
  readonly output?: string
  readonly error?: string
  readonly revertReason?: string
  readonly calls?: readonly TracedCall[]
}

/** Maximum number and depth of the calls on the page; gas alone would allow far more. */
const MAX_CALLS = 400
const MAX_DEPTH = 24
const DISPLAYED_OUTPUT = 66

export function callTree(root: TracedCall): View {
  const left = { calls: MAX_CALLS }
  return html`
    <ul class="calls">${branch(root, 0, left)}</ul>
    ${left.calls <= 0 ? html`<p class="note">The page displays only the first ${MAX_CALLS} calls.</p>` : null}
  `
}

function branch(call: TracedCall, depth: number, left: { calls: number }): View {
  if (left.calls-- <= 0) return null
  const { type, to, error, revertReason, calls = [] } = call
  const hasMore = calls.length > 0
  return html`
    <li class=${error === undefined ? 'call' : 'call failed'}>
      <div class="call-line">
        <span class="kind">${type}</span>
        <span class="hex" title=${to ?? ''}>${to === undefined ? 'new contract' : ends(to)}</span>
        ${functionOf(call)}
        ${valueText(call)}
        <span class="note">${short(Number(call.gasUsed))} gas</span>
        ${error === undefined ? outputOf(call) : html`<span class="error">${error}${revertReason === undefined ? '' : `: ${revertReason}`}</span>`}
      </div>
      ${
        !hasMore
          ? null
          : depth >= MAX_DEPTH
            ? html`<p class="note">the page does not display deeper calls</p>`
            : html`<ul>${calls.map((one) => branch(one, depth + 1, left))}</ul>`
      }
    </li>
  `
}

function functionOf({ input, type }: TracedCall): View {
  if (type.startsWith('CREATE')) return html`<span class="note">${bytesOf(input)} of code</span>`
  const decoded = decodeCalldata(input)
  if (decoded === undefined)
    return input === '0x' || input === ''
      ? null
      : html`<span class="hex">${input.slice(0, 10)}</span><span class="note">${bytesOf(input)}</span>`
  const { name, args } = decoded
  return html`
    <span class="function"
      >${name}(${args.map(
        (arg, at) => html`${at === 0 ? '' : ', '}<span class="argument">${arg.name}</span>
          <span class="hex" title=${arg.value}>${arg.value.startsWith('0x') ? ends(arg.value) : arg.value}</span>`,
      )})</span
    >
  `
}

const valueText = ({ value }: TracedCall): View =>
  value === undefined || BigInt(value) === 0n
    ? null
    : html`<span class="value">${amount(BigInt(value))}</span>`

function outputOf({ output, type }: TracedCall): View {
  if (output === undefined || output === '0x' || type.startsWith('CREATE')) return null
  const isShort = output.length <= DISPLAYED_OUTPUT
  return html`<span class="output">→ <span class="hex" title=${isShort ? output : ''}>${isShort ? ends(output) : bytesOf(output)}</span></span>`
}

const bytesOf = (hex: string): string => `${short(Math.max(0, (hex.length - 2) / 2))} bytes`
