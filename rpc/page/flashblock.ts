/** The selected flashblock: its times and its transactions. */
import type { FlashblockId } from './blocks.ts'
import type { Call } from './connection.ts'
import { clock, count, ends, gas, ms } from './format.ts'
import { type Row, type Tile, tileStateOf } from './store.ts'
import { html, useEffect, useState, type View } from './view.ts'

/** Maximum hashes of one flashblock. */
const MAX_HASHES = 50

type Props = {
  readonly flashblockId: FlashblockId
  readonly rows: readonly Row[]
  readonly call: Call
  readonly onFollow: (hash: string) => void
  readonly onClose: () => void
}

export function Flashblock({ flashblockId, rows, call, onFollow, onClose }: Props): View {
  const { number, index, payloadId } = flashblockId
  const row = rows.find((one) => one.number === number)
  const tile = row?.tiles.find((one) => one.index === index && one.payloadId === payloadId)
  // The panel stays visible when its row is gone.
  const [retained, setRetained] = useState(tile)
  const [hashes, setHashes] = useState<readonly string[]>([])
  const displayed = tile ?? retained
  useEffect(() => {
    if (tile === undefined) return
    setRetained(tile)
    let isLeft = false
    const before = transactionsBefore(row!, tile)
    void hashesOf(call, flashblockId).then((all) => {
      if (!isLeft) setHashes(all.slice(before, before + tile.transactions))
    })
    return () => {
      isLeft = true
    }
  }, [number, index, payloadId])
  if (displayed === undefined) return null
  return html`
    <section class="panel flashblock" aria-labelledby="flashblock-title">
      <header>
        <h2 id="flashblock-title">Flashblock ${count(number)}<small>:${index}</small></h2>
        <button type="button" class="quiet" onClick=${onClose}>Close</button>
      </header>
      ${facts(displayed, row)}
      ${
        hashes.length === 0
          ? null
          : html`
              <h3>Transactions</h3>
              <ol class="hashes">
                ${hashes.slice(0, MAX_HASHES).map(
                  (hash) => html`
                    <li key=${hash}>
                      <button type="button" class="link" title=${hash} onClick=${() => onFollow(hash)}>
                        ${ends(hash)}
                      </button>
                    </li>
                  `,
                )}
              </ol>
              ${hashes.length > MAX_HASHES ? html`<p class="note">and ${count(hashes.length - MAX_HASHES)} more</p>` : null}
            `
      }
    </section>
  `
}

function facts(tile: Tile, row: Row | undefined): View {
  const { at, publishMs, executeMs, transactions, gas: used, payloadId } = tile
  const after = at === undefined || row?.startedAt === undefined ? undefined : at - row.startedAt
  const tileStates = {
    shown: 'visible',
    late: 'late: the frame did not arrive in time, the flashblock came with its block',
    replaced: 'replaced: no longer in the chain',
  }
  return html`
    <dl class="facts">
      <div><dt>State</dt><dd>${tileStates[tileStateOf(row ?? { sealed: undefined }, tile)]}</dd></div>
      <div><dt>Arrived</dt><dd>${at === undefined ? '–' : clock(at)}${after === undefined ? '' : ` (+${ms(after)})`}</dd></div>
      <div><dt>Readable after</dt><dd>${ms(publishMs)}</dd></div>
      <div><dt>Execution</dt><dd>${ms(executeMs)}</dd></div>
      <div><dt>Transactions</dt><dd>${count(transactions)}</dd></div>
      <div><dt>Gas</dt><dd>${gas(used)}</dd></div>
      <div><dt>Payload</dt><dd class="hex">${payloadId ?? '–'}</dd></div>
    </dl>
  `
}

const transactionsBefore = (row: Row, tile: Tile): number =>
  row.tiles.reduce(
    (all, one) => (one.index < tile.index && !one.isReplaced ? all + one.transactions : all),
    0,
  )

/**
 * Reads the hashes of the block up to this flashblock. The node knows a flashblock by index for
 * some seconds only; afterwards the block itself has the same transactions.
 */
async function hashesOf(call: Call, { number, index }: FlashblockId): Promise<readonly string[]> {
  const hex = (value: number) => `0x${value.toString(16)}`
  const block = (of: unknown) =>
    call<{ readonly transactions: readonly string[] } | null>('eth_getBlockByNumber', [of, false])
  try {
    const selector = { flashblock: { number: hex(number), index: hex(index) } }
    const found = (await block(selector).catch(() => undefined)) ?? (await block(hex(number)))
    return found?.transactions ?? []
  } catch {
    return []
  }
}
