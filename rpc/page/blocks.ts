/** The newest blocks as rows of flashblocks on a time axis. */
import { axisMs, type Placed, placed, shareAt, stepOf, ticks } from './axis.ts'
import { count, gas, ms, short, words } from './format.ts'
import { type Cell, type Fate, fateOf, type Row } from './store.ts'
import { html, type View } from './view.ts'

/** Which flashblock is looked at. */
export type Place = {
  readonly number: number
  readonly index: number
  readonly payloadId?: string | undefined
}
export type BlocksProps = {
  readonly rows: readonly Row[]
  readonly blockMs: number
  /** Blocks up to here are sealed, also those whose seal nobody has seen. */
  readonly canonical: number
  readonly selected: Place | undefined
  readonly onSelect: (place: Place) => void
  readonly isHeld: boolean
  readonly onHold: () => void
}

export function blocks(props: BlocksProps): View {
  const { rows, blockMs, isHeld, onHold } = props
  const scale = { blockMs, step: stepOf(rows, blockMs) }
  return html`
    <section class="panel blocks" aria-labelledby="blocks-title">
      <header>
        <h2 id="blocks-title">Blocks</h2>
        ${legend()}
        <button type="button" class="quiet" aria-pressed=${isHeld} onClick=${onHold}>
          ${isHeld ? 'Go on' : 'Hold still'}
        </button>
      </header>
      <div class="axis" aria-hidden="true">
        <span class="axis-track">
          ${ticks(blockMs).map(
            (at) =>
              html`<span style=${{ left: left(at / axisMs(blockMs)) }}>${at}<i> ms</i></span>`,
          )}
        </span>
      </div>
      ${rows.length === 0 ? html`<p class="none">No flashblock has come yet.</p>` : null}
      <ol class="rows" onKeyDown=${move}>
        ${rows.map((row, at) => blockRow(row, { ...props, scale, isFirst: at === 0 }))}
      </ol>
    </section>
  `
}

const left = (share: number): string => `${(100 * share).toFixed(3)}%`

const legend = (): View => html`
  <ul class="legend" aria-label="Legend">
    <li><i class="key shown"></i>flashblock</li>
    <li><i class="key busy"></i>until readable</li>
    <li><i class="key late"></i>missing, came with its block</li>
    <li><i class="key replaced"></i>replaced</li>
    <li><i class="key held"></i>held or out of order</li>
    <li><i class="key sealed"></i>sealed</li>
  </ul>
`

type RowProps = BlocksProps & {
  readonly scale: { readonly blockMs: number; readonly step: number }
  readonly isFirst: boolean
}

function blockRow(row: Row, props: RowProps): View {
  const { blockMs } = props
  const { number, sealed, marks, gasUsed, gasLimit } = row
  const share = gasLimit === 0 ? 0 : gasUsed / gasLimit
  const isSealed = sealed !== undefined || number <= props.canonical
  const sealedAt = sealed && shareAt(row, sealed.at, blockMs)
  const transactions =
    sealed?.transactions ??
    row.cells.reduce((all, cell) => all + (cell.isReplaced ? 0 : cell.transactions), 0)
  return html`
    <li class=${`row ${isSealed ? 'done' : 'open'}`} key=${number} data-number=${number}>
      <span class="number">${count(number)}</span>
      <span class="track">
        ${ticks(blockMs).map(
          (at) => html`<i class="tick" style=${{ left: left(at / axisMs(blockMs)) }}></i>`,
        )}
        ${placed(row, props.scale).map((one, at) =>
          cellButton(one, { ...props, row, number, isEntry: props.isFirst && at === 0 }),
        )}
        ${marks.map(({ what, at, by }) => {
          const where = shareAt(row, at, blockMs)
          const title = `${words(what)}${by > 1 ? ` × ${by}` : ''}`
          return where === undefined
            ? null
            : html`<i class="mark" role="img" aria-label=${title} title=${title} style=${{ left: left(where) }}></i>`
        })}
        ${
          sealedAt === undefined
            ? null
            : html`<i class="seal" title=${`sealed after ${ms(sealed!.at - row.begunAt!)}`} style=${{ left: left(sealedAt) }}></i>`
        }
      </span>
      <span class="sums">
        <span class="transactions">${short(transactions)} <i>tx</i></span>
        <span class="gas" title=${`${gas(gasUsed)} of ${gas(gasLimit)}`}>
          <i style=${{ width: left(Math.min(1, share)) }}></i>
        </span>
        <span class="state">${
          !isSealed
            ? 'pending'
            : row.begunAt === undefined || sealed === undefined
              ? 'sealed'
              : ms(sealed.at - row.begunAt)
        }</span>
      </span>
    </li>
  `
}

/** Share of the axis in which a number can be read. */
const LEAST_TEXT = 0.025

/** A tab stop is the cell that is looked at, or the newest block's first. */
function cellButton(
  { cell, left: from, width, busy, load }: Placed,
  props: RowProps & { readonly row: Row; readonly number: number; readonly isEntry: boolean },
): View {
  const { number, selected, onSelect, isEntry } = props
  const { index, payloadId, isReplaced, transactions } = cell
  const fate = fateOf(props.row, cell)
  const isSelected =
    selected?.number === number && selected.index === index && selected.payloadId === payloadId
  const isStop = selected === undefined ? isEntry : isSelected
  return html`
    <button
      type="button"
      key=${`${payloadId}:${index}:${isReplaced}`}
      class=${`cell ${fate}`}
      data-flashblock=${`${number}:${index}`}
      tabindex=${isStop ? 0 : -1}
      aria-pressed=${isSelected}
      aria-label=${labelOf(number, cell, fate)}
      style=${{ left: left(from), width: left(width), '--load': load.toFixed(3) }}
      onClick=${() => onSelect({ number, index, payloadId })}
    >
      <i class="until" style=${{ width: left(busy) }}></i>
      <span>${width < LEAST_TEXT ? '' : short(transactions)}</span>
    </button>
  `
}

function labelOf(
  number: number,
  { index, transactions, gas: used, publishMs }: Cell,
  fate: Fate,
): string {
  const what =
    fate === 'replaced'
      ? 'replaced'
      : fate === 'late'
        ? 'came with its block'
        : `readable after ${ms(publishMs)}`
  return `Flashblock ${index} of block ${number}: ${transactions} transactions, ${gas(used)}, ${what}`
}

/** Arrows go from cell to cell, up and down to the cell below the same moment. */
function move(event: KeyboardEvent): void {
  const { target, currentTarget, key } = event
  if (!(target instanceof HTMLElement) || !(currentTarget instanceof HTMLElement)) return
  const row = target.closest('.row')
  const cells = [...(row?.querySelectorAll<HTMLElement>('.cell') ?? [])]
  const at = cells.indexOf(target)
  const to =
    key === 'ArrowRight'
      ? cells[at + 1]
      : key === 'ArrowLeft'
        ? cells[at - 1]
        : key === 'ArrowDown'
          ? nearest(row?.nextElementSibling, target)
          : key === 'ArrowUp'
            ? nearest(row?.previousElementSibling, target)
            : undefined
  if (to === undefined) return
  event.preventDefault()
  to.focus()
}

function nearest(row: Element | null | undefined, target: HTMLElement): HTMLElement | undefined {
  const cells = [...(row?.querySelectorAll<HTMLElement>('.cell') ?? [])]
  const distance = ({ offsetLeft }: HTMLElement) => Math.abs(offsetLeft - target.offsetLeft)
  return cells.sort((a, b) => distance(a) - distance(b))[0]
}
