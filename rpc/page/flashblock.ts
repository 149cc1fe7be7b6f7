/** The flashblock that is looked at: its times, and what is in it. */
import type { Place } from './blocks.ts'
import type { Call } from './connection.ts'
import { clock, count, ends, gas, ms } from './format.ts'
import { type Cell, fateOf, type Row } from './store.ts'
import { html, useEffect, useState, type View } from './view.ts'

/** Of one flashblock. */
const MOST_HASHES = 50

type Props = {
  readonly place: Place
  readonly rows: readonly Row[]
  readonly call: Call
  readonly onFollow: (hash: string) => void
  readonly onClose: () => void
}

export function Flashblock({ place, rows, call, onFollow, onClose }: Props): View {
  const { number, index, payloadId } = place
  const row = rows.find((one) => one.number === number)
  const cell = row?.cells.find((one) => one.index === index && one.payloadId === payloadId)
  // It stays in sight when its row has gone.
  const [kept, keep] = useState(cell)
  const [hashes, setHashes] = useState<readonly string[]>([])
  const shown = cell ?? kept
  useEffect(() => {
    if (cell === undefined) return
    keep(cell)
    let isLeft = false
    const before = transactionsBefore(row!, cell)
    void hashesOf(call, place).then((all) => {
      if (!isLeft) setHashes(all.slice(before, before + cell.transactions))
    })
    return () => {
      isLeft = true
    }
  }, [number, index, payloadId])
  if (shown === undefined) return null
  return html`
    <section class="panel flashblock" aria-labelledby="flashblock-title">
      <header>
        <h2 id="flashblock-title">Flashblock ${count(number)}<small>:${index}</small></h2>
        <button type="button" class="quiet" onClick=${onClose}>Close</button>
      </header>
      ${facts(shown, row)}
      ${
        hashes.length === 0
          ? null
          : html`
              <h3>Transactions</h3>
              <ol class="hashes">
                ${hashes.slice(0, MOST_HASHES).map(
                  (hash) => html`
                    <li key=${hash}>
                      <button type="button" class="link" title=${hash} onClick=${() => onFollow(hash)}>
                        ${ends(hash)}
                      </button>
                    </li>
                  `,
                )}
              </ol>
              ${hashes.length > MOST_HASHES ? html`<p class="note">and ${count(hashes.length - MOST_HASHES)} more</p>` : null}
            `
      }
    </section>
  `
}

function facts(cell: Cell, row: Row | undefined): View {
  const { at, publishMs, executeMs, transactions, gas: used, payloadId } = cell
  const after = at === undefined || row?.begunAt === undefined ? undefined : at - row.begunAt
  const fates = {
    shown: 'shown',
    late: 'its frame did not come in time: it came with the block',
    replaced: 'replaced: it is not in the chain any more',
  }
  return html`
    <dl class="facts">
      <div><dt>What became of it</dt><dd>${fates[fateOf(row ?? { sealed: undefined }, cell)]}</dd></div>
      <div><dt>Arrived</dt><dd>${at === undefined ? '–' : clock(at)}${after === undefined ? '' : ` (+${ms(after)})`}</dd></div>
      <div><dt>Readable after</dt><dd>${ms(publishMs)}</dd></div>
      <div><dt>Execution</dt><dd>${ms(executeMs)}</dd></div>
      <div><dt>Transactions</dt><dd>${count(transactions)}</dd></div>
      <div><dt>Gas</dt><dd>${gas(used)}</dd></div>
      <div><dt>Payload</dt><dd class="hex">${payloadId ?? '–'}</dd></div>
    </dl>
  `
}

const transactionsBefore = (row: Row, cell: Cell): number =>
  row.cells.reduce(
    (all, one) => (one.index < cell.index && !one.isReplaced ? all + one.transactions : all),
    0,
  )

/** Of the block up to there. A flashblock can be named for some seconds; then its block still has what it had. */
async function hashesOf(call: Call, { number, index }: Place): Promise<readonly string[]> {
  const hex = (value: number) => `0x${value.toString(16)}`
  const block = (of: unknown) =>
    call<{ readonly transactions: readonly string[] } | null>('eth_getBlockByNumber', [of, false])
  try {
    const place = { flashblock: { number: hex(number), index: hex(index) } }
    const found = (await block(place).catch(() => undefined)) ?? (await block(hex(number)))
    return found?.transactions ?? []
  } catch {
    return []
  }
}
