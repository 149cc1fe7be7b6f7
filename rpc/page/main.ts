/** The status page: receives the node's messages and draws its state at a limited rate. */
import { type BlocksProps, blocks, type FlashblockId } from './blocks.ts'
import { Chart } from './chart.ts'
import { type Call, type Link, openCalls, openLive } from './connection.ts'
import { Development } from './development.ts'
import { Flashblock } from './flashblock.ts'
import { tiles, top } from './head.ts'
import { inside } from './inside.ts'
import { applyAll, EMPTY, oldestStats, type Page, type Row, statsAgo } from './store.ts'
import { promises, type Span, timings } from './timings.ts'
import { html, render, useEffect, useState, type View } from './view.ts'
import { Way } from './way.ts'

/** Minimum time between two drawings; nobody reads faster. */
const DRAW_MS = 80
/** Period of the rates. */
const RATE_SECONDS = 10

type Displayed = { readonly page: Page; readonly link: Link }
type Listener = (displayed: Displayed) => void

/**
 * Opens the page's store. Drawings run in animation frames, so that a page in the background draws
 * nothing.
 * @returns adds a listener of the drawings
 */
function openStore(): (listener: Listener) => () => void {
  let displayed: Displayed = { page: EMPTY, link: 'connecting' }
  let isDue = false
  let drawnAt = 0
  const listeners = new Set<Listener>()
  const draw = (now: number) => {
    if (now - drawnAt < DRAW_MS) {
      requestAnimationFrame(draw)
      return
    }
    drawnAt = now
    isDue = false
    for (const listener of listeners) listener(displayed)
  }
  const change = (next: Partial<Displayed>) => {
    displayed = { ...displayed, ...next }
    if (isDue) return
    isDue = true
    requestAnimationFrame(draw)
  }
  openLive({
    messages: (messages) => change({ page: applyAll(displayed.page, messages, Date.now()) }),
    link: (link) => change({ link }),
  })
  return (listener) => {
    listeners.add(listener)
    listener(displayed)
    return () => listeners.delete(listener)
  }
}

type AppProps = { readonly listen: ReturnType<typeof openStore>; readonly call: Call }

function App({ listen, call }: AppProps): View {
  const [{ page, link }, setDisplayed] = useState<Displayed>({ page: EMPTY, link: 'connecting' })
  const [frozen, setFrozen] = useState<readonly Row[] | undefined>(undefined)
  const [flashblockId, setFlashblockId] = useState<FlashblockId | undefined>(undefined)
  const [wanted, setWanted] = useState<{ readonly hash: string } | undefined>(undefined)
  const [span, setSpan] = useState<Span>('minute')
  useEffect(() => listen(setDisplayed), [])
  const { hello, stats } = page
  const onFollow = (hash: string) => setWanted({ hash })
  const displayedRows: BlocksProps = {
    rows: frozen ?? page.rows,
    blockMs: hello?.blockMs ?? 1_000,
    canonical: stats?.heads['canonical'] ?? 0,
    selected: flashblockId,
    onSelect: setFlashblockId,
    isFrozen: frozen !== undefined,
    onFreeze: () => setFrozen(frozen === undefined ? page.rows : undefined),
  }
  return html`
    ${top(page, link)}
    <main id="main" class=${link === 'open' ? '' : 'stale'}>
      ${tiles(page)}
      <div class="columns">
        <div class="wide">
          ${blocks(displayedRows)}
          ${flashblockId === undefined ? null : html`<${Flashblock} key=${`${flashblockId.number}:${flashblockId.index}:${flashblockId.payloadId}`} flashblockId=${flashblockId} rows=${displayedRows.rows} call=${call} onFollow=${onFollow} onClose=${() => setFlashblockId(undefined)} />`}
          ${stats === undefined ? null : timings({ stats, before: oldestStats(page), span, onSpan: setSpan })}
          ${load(page)}
        </div>
        <div class="narrow">
          <${Way} call=${call} wanted=${wanted} onFollow=${onFollow} />
          ${hello?.hasControls === true ? html`<${Development} call=${call} pending=${stats?.heads['canonical'] ?? 0} onFollow=${onFollow} />` : null}
          ${stats === undefined ? null : promises(stats)}
        </div>
      </div>
      ${stats?.inside === undefined ? null : insidePart(page)}
    </main>
  `
}

const load = ({ load: { at, transactions, mgas } }: Page): View =>
  at.length < 2
    ? null
    : html`
        <section class="panel" aria-labelledby="load-title">
          <header><h2 id="load-title">Load by block</h2></header>
          <${Chart}
            title="Transactions and gas"
            at=${at}
            unit=""
            rightUnit="M"
            lines=${[
              { name: 'transactions', values: transactions, color: 'accent', isFilled: true },
              { name: 'Mgas', values: mgas, color: 'second', isRight: true },
            ]}
          />
        </section>
      `

function insidePart(page: Page): View {
  const { series, stats } = page
  return html`
    <h2 class="part">Internals</h2>
    <div class="inside">
      ${
        series.at.length < 2
          ? null
          : html`
              <section class="panel" aria-label="Requests and memory over time">
                <${Chart}
                  title="Requests"
                  at=${series.at}
                  unit="/s"
                  lines=${[
                    { name: 'answered', values: series.requests, color: 'accent', isFilled: true },
                    { name: 'errors', values: series.errors, color: 'bad' },
                  ]}
                />
                <${Chart}
                  title="Process"
                  at=${series.at}
                  unit="MB"
                  rightUnit="%"
                  lines=${[
                    { name: 'resident', values: series.residentMb, color: 'second' },
                    { name: 'processor', values: series.cpu, color: 'accent', isRight: true },
                  ]}
                />
              </section>
            `
      }
      ${inside({ stats: stats!, before: statsAgo(page, RATE_SECONDS) ?? oldestStats(page) })}
    </div>
  `
}

const root = document.getElementById('page')
if (root !== null) render(html`<${App} listen=${openStore()} call=${openCalls()} />` as never, root)
