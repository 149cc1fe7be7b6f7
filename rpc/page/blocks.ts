/** The newest blocks as rows of flashblocks on a time axis. */
import { axisMs, boxesOf, shareAt, stepOf, type TileBox, ticks } from './axis.ts'
import { count, gas, ms, short, words } from './format.ts'
import { type Row, type Tile, type TileState, tileStateOf } from './store.ts'
import { html, type View } from './view.ts'

/** The selected flashblock. */
export type FlashblockId = {
  readonly number: number
  readonly index: number
  readonly payloadId?: string | undefined
}
export type BlocksProps = {
  readonly rows: readonly Row[]
  readonly blockMs: number
  /** Height up to which all blocks are sealed, also those whose seal the page has not received. */
  readonly canonical: number
  readonly selected: FlashblockId | undefined
  readonly onSelect: (flashblockId: FlashblockId) => void
  readonly isFrozen: boolean
  readonly onFreeze: () => void
}

export function blocks(props: BlocksProps): View {
  const { rows, blockMs, isFrozen, onFreeze } = props
  const scale = { blockMs, step: stepOf(rows, blockMs) }
  return html`
    <section class="panel blocks" aria-labelledby="blocks-title">
      <header>
        <h2 id="blocks-title">Blocks</h2>
        ${legend()}
        <button type="button" class="quiet" aria-pressed=${isFrozen} onClick=${onFreeze}>
          ${isFrozen ? 'Unfreeze' : 'Freeze'}
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
      ${rows.length === 0 ? html`<p class="none">No flashblock has arrived yet.</p>` : null}
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
    <li><i class="key busy"></i>time until readable</li>
    <li><i class="key late"></i>missing, came with its block</li>
    <li><i class="key replaced"></i>replaced</li>
    <li><i class="key held"></i>event of the feed</li>
    <li><i class="key sealed"></i>sealed</li>
  </ul>
`

type RowProps = BlocksProps & {
  readonly scale: { readonly blockMs: number; readonly step: number }
  readonly isFirst: boolean
}

function blockRow(row: Row, props: RowProps): View {
  const { blockMs } = props
  const { number, sealed, markers, gasUsed, gasLimit } = row
  const share = gasLimit === 0 ? 0 : gasUsed / gasLimit
  const isSealed = sealed !== undefined || number <= props.canonical
  const sealedAt = sealed && shareAt(row, sealed.at, blockMs)
  const transactions =
    sealed?.transactions ??
    row.tiles.reduce((all, tile) => all + (tile.isReplaced ? 0 : tile.transactions), 0)
  return html`
    <li class=${`row ${isSealed ? 'done' : 'open'}`} key=${number} data-number=${number}>
      <span class="number">${count(number)}</span>
      <span class="track">
        ${ticks(blockMs).map(
          (at) => html`<i class="tick" style=${{ left: left(at / axisMs(blockMs)) }}></i>`,
        )}
        ${boxesOf(row, props.scale).map((one, at) =>
          tileButton(one, { ...props, row, number, isEntry: props.isFirst && at === 0 }),
        )}
        ${markers.map(({ what, at, by }) => {
          const where = shareAt(row, at, blockMs)
          const title = `${words(what)}${by > 1 ? ` × ${by}` : ''}`
          return where === undefined
            ? null
            : html`<i class="mark" role="img" aria-label=${title} title=${title} style=${{ left: left(where) }}></i>`
        })}
        ${
          sealedAt === undefined
            ? null
            : html`<i class="seal" title=${`sealed after ${ms(sealed!.at - row.startedAt!)}`} style=${{ left: left(sealedAt) }}></i>`
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
            : row.startedAt === undefined || sealed === undefined
              ? 'sealed'
              : ms(sealed.at - row.startedAt)
        }</span>
      </span>
    </li>
  `
}

/** Minimum share of the axis for a readable number. */
const MIN_TEXT = 0.025

/** The tab stop is the selected tile, or the first tile of the newest block. */
function tileButton(
  { tile, left: from, width, busy, load }: TileBox,
  props: RowProps & { readonly row: Row; readonly number: number; readonly isEntry: boolean },
): View {
  const { number, selected, onSelect, isEntry } = props
  const { index, payloadId, isReplaced, transactions } = tile
  const tileState = tileStateOf(props.row, tile)
  const isSelected =
    selected?.number === number && selected.index === index && selected.payloadId === payloadId
  const isStop = selected === undefined ? isEntry : isSelected
  return html`
    <button
      type="button"
      key=${`${payloadId}:${index}:${isReplaced}`}
      class=${`cell ${tileState}`}
      data-flashblock=${`${number}:${index}`}
      tabindex=${isStop ? 0 : -1}
      aria-pressed=${isSelected}
      aria-label=${labelOf(number, tile, tileState)}
      style=${{ left: left(from), width: left(width), '--load': load.toFixed(3) }}
      onClick=${() => onSelect({ number, index, payloadId })}
    >
      <i class="until" style=${{ width: left(busy) }}></i>
      <span>${width < MIN_TEXT ? '' : short(transactions)}</span>
    </button>
  `
}

function labelOf(
  number: number,
  { index, transactions, gas: used, publishMs }: Tile,
  tileState: TileState,
): string {
  const what =
    tileState === 'replaced'
      ? 'replaced'
      : tileState === 'late'
        ? 'came with its block'
        : `readable after ${ms(publishMs)}`
  return `Flashblock ${index} of block ${number}: ${transactions} transactions, ${gas(used)}, ${what}`
}

/** Arrow keys move between tiles; up and down go to the tile at the same moment. */
function move(event: KeyboardEvent): void {
  const { target, currentTarget, key } = event
  if (!(target instanceof HTMLElement) || !(currentTarget instanceof HTMLElement)) return
  const row = target.closest('.row')
  const tiles = [...(row?.querySelectorAll<HTMLElement>('.cell') ?? [])]
  const at = tiles.indexOf(target)
  const to =
    key === 'ArrowRight'
      ? tiles[at + 1]
      : key === 'ArrowLeft'
        ? tiles[at - 1]
        : key === 'ArrowDown'
          ? closestTile(row?.nextElementSibling, target)
          : key === 'ArrowUp'
            ? closestTile(row?.previousElementSibling, target)
            : undefined
  if (to === undefined) return
  event.preventDefault()
  to.focus()
}

function closestTile(
  row: Element | null | undefined,
  target: HTMLElement,
): HTMLElement | undefined {
  const tiles = [...(row?.querySelectorAll<HTMLElement>('.cell') ?? [])]
  const distance = ({ offsetLeft }: HTMLElement) => Math.abs(offsetLeft - target.offsetLeft)
  return tiles.sort((a, b) => distance(a) - distance(b))[0]
}
