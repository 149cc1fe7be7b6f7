/**
 * Panel that follows a transaction from the txpool to a flashblock to a sealed block, with its call
 * tree.
 */
import { callTree, type TracedCall } from './call-tree.ts'
import type { Call } from './connection.ts'
import { amount, clock, count, ends, gas, ms } from './format.ts'
import { html, useEffect, useRef, useState, type View } from './view.ts'

type Status = {
  readonly status: string
  readonly blockNumber?: string
  readonly blockHash?: string
  readonly transactionIndex?: string
  readonly flashblockIndex?: number
  readonly takenAt?: number
  readonly preconfirmedAt?: number
  readonly sealedAt?: number
  readonly replacedBy?: string
  readonly reason?: string
  readonly isWaiting?: boolean
  readonly promises?: readonly { readonly fate: string; readonly causes?: readonly string[] }[]
}
type Transaction = {
  readonly from: string
  readonly to: string | null
  readonly value: string
  readonly nonce: string
  readonly type: string
}
type Receipt = {
  readonly status: string
  readonly gasUsed: string
  readonly effectiveGasPrice?: string
  readonly contractAddress: string | null
  readonly logs: readonly { readonly address: string; readonly topics: readonly string[] }[]
}
type Found = {
  readonly hash: string
  readonly status: Status
  readonly transaction: Transaction | null
  readonly receipt: Receipt | null
  readonly trace?: TracedCall | undefined
  readonly traceProblem?: string | undefined
}

/**
 * Intervals of requests: until the seal, while the transaction is unknown, and afterwards, because
 * of reorgs.
 */
const SOON_MS = 120
const RETRY_MS = 500
const LATER_MS = 2_000
const HASH = /^0x[0-9a-fA-F]{64}$/
const MAX_LOGS = 20

type Props = {
  readonly call: Call
  /** The followed transaction; a new object with the same hash restarts the requests. */
  readonly wanted: { readonly hash: string } | undefined
  readonly onFollow: (hash: string) => void
}

export function Way({ call, wanted, onFollow }: Props): View {
  const [text, setText] = useState('')
  /** State of the input text, and of the node's response. */
  const [isWrong, setWrong] = useState(false)
  const [problem, setProblem] = useState<string | undefined>(undefined)
  const [found, setFound] = useState<Found | undefined>(undefined)
  /** Time when the transaction was first seen to wait. */
  const seenAt = useRef<Record<string, number>>({})
  useEffect(() => {
    if (wanted === undefined) return
    setText(wanted.hash)
    setWrong(false)
    setProblem(undefined)
    return follow(
      call,
      wanted.hash,
      (next) => {
        const { takenAt } = next.status
        if (takenAt !== undefined) seenAt.current = { [next.hash]: takenAt }
        setFound(next)
      },
      setProblem,
    )
  }, [wanted])
  const submit = (event: Event) => {
    event.preventDefault()
    const hash = text.trim()
    setWrong(!HASH.test(hash))
    if (HASH.test(hash)) onFollow(hash.toLowerCase())
  }
  const isCurrent = found !== undefined && found.hash === wanted?.hash
  return html`
    <section class="panel way" aria-labelledby="way-title">
      <header><h2 id="way-title">Path of a transaction</h2></header>
      <form onSubmit=${submit}>
        <label class="spoken" for="hash">Transaction hash</label>
        <input
          id="hash"
          class="hex"
          placeholder="Paste a transaction hash"
          autocomplete="off"
          spellcheck=${false}
          maxlength="66"
          value=${text}
          onInput=${(event: Event) => setText((event.target as HTMLInputElement).value)}
        />
        <button type="submit">Follow</button>
      </form>
      <div aria-live="polite">
        ${isWrong ? html`<p class="error">A transaction hash is 0x and 64 hex digits.</p>` : null}
        ${problem === undefined ? null : html`<p class="error">${problem}</p>`}
        ${isCurrent ? wayOf(found, seenAt.current[found.hash]) : null}
      </div>
      ${isCurrent ? detailsOf(found) : null}
    </section>
  `
}

type Known = Pick<Found, 'transaction' | 'receipt' | 'trace' | 'traceProblem'> & {
  /** Block of the receipt and the calls. */
  readonly block: string | undefined
}

/**
 * Polls the transaction's status, and reads its receipt and calls once for each block that includes
 * it.
 * @returns ends the polling
 */
function follow(
  call: Call,
  hash: string,
  onFound: (found: Found) => void,
  onProblem: (text: string | undefined) => void,
): () => void {
  let isLeft = false
  let timer: ReturnType<typeof setTimeout> | undefined
  let known: Known = { transaction: null, receipt: null, block: undefined }
  async function request(): Promise<number> {
    const status = await call<Status>('flashblocks_transactionStatus', [hash])
    const { blockHash, blockNumber } = status
    const report = () => {
      if (isLeft) return
      onProblem(undefined)
      onFound({ hash, status, ...known })
    }
    if (status.status !== 'unknown' && known.transaction === null)
      known = { ...known, transaction: await call('eth_getTransactionByHash', [hash]) }
    if (blockNumber === undefined) known = { ...known, receipt: null, block: undefined }
    report()
    const block = status.status === 'sealed' ? blockHash : blockNumber
    if (block !== undefined && known.block !== block && !isLeft) {
      const receipt = await call<Receipt | null>('eth_getTransactionReceipt', [hash])
      known = { transaction: known.transaction, receipt, block, ...(await traceOf(call, hash)) }
      report()
    }
    return status.status === 'sealed' ? LATER_MS : status.status === 'unknown' ? RETRY_MS : SOON_MS
  }
  function reschedule(): void {
    void request()
      .catch((error: Error) => {
        if (!isLeft) onProblem(error.message)
        return LATER_MS
      })
      .then((inMs) => {
        if (!isLeft) timer = setTimeout(reschedule, inMs)
      })
  }
  reschedule()
  return () => {
    isLeft = true
    clearTimeout(timer)
  }
}

async function traceOf(call: Call, hash: string): Promise<Pick<Found, 'trace' | 'traceProblem'>> {
  try {
    return {
      trace: await call<TracedCall>('debug_traceTransaction', [hash, { tracer: 'callTracer' }]),
    }
  } catch (error) {
    return { traceProblem: (error as Error).message }
  }
}

type Station = {
  readonly name: string
  readonly state: 'done' | 'now' | 'open' | 'failed'
  readonly text: string
  readonly at?: number | undefined
}

function wayOf({ hash, status }: Found, takenAt: number | undefined): View {
  const stations = stationsOf(status, takenAt)
  return html`
    <p class="spoken">Transaction ${ends(hash)} is ${status.status}.</p>
    <ol class="stations" data-status=${status.status} data-hash=${hash}>
      ${stations.map(
        ({ name, state, text, at }) => html`
          <li key=${name} class=${state}>
            <strong>${name}</strong>
            <span>${text}</span>
            ${at === undefined ? null : html`<time>${clock(at)}</time>`}
          </li>
        `,
      )}
    </ol>
  `
}

function stationsOf(status: Status, takenAt: number | undefined): readonly Station[] {
  const { blockNumber, flashblockIndex, preconfirmedAt, sealedAt, transactionIndex } = status
  const number = blockNumber === undefined ? undefined : Number(blockNumber)
  const isWaiting = ['pooled', 'forwarded'].includes(status.status) || status.isWaiting === true
  const isGone = ['dropped', 'replaced'].includes(status.status)
  const isSealed = status.status === 'sealed'
  const after = (to: number | undefined, from: number | undefined) =>
    to === undefined || from === undefined ? '' : `, after ${ms(to - from)}`
  if (status.status === 'unknown')
    return [
      {
        name: 'Unknown',
        state: 'now',
        text: 'this node does not know it yet and keeps looking for it',
      },
    ]
  const gone = `${status.status}${status.reason === undefined ? '' : `: ${status.reason}`}${status.replacedBy === undefined ? '' : ` by ${status.replacedBy}`}`
  return [
    {
      name: status.status === 'forwarded' ? 'Forwarded' : 'Txpool',
      state: isWaiting ? 'now' : 'done',
      text: isWaiting ? 'waits for a flashblock' : 'accepted',
      at: takenAt,
    },
    {
      name: 'Flashblock',
      state: isGone ? 'failed' : number === undefined ? 'open' : 'done',
      text: isGone
        ? gone
        : number === undefined
          ? ''
          : flashblockIndex === undefined
            ? `block ${count(number)}, without a flashblock`
            : `${count(number)}:${flashblockIndex}${after(preconfirmedAt, takenAt)}`,
      at: preconfirmedAt,
    },
    {
      name: 'Sealed block',
      state: isSealed ? 'done' : number === undefined || isGone ? 'open' : 'now',
      text: isSealed
        ? `${count(number!)}, transaction ${Number(transactionIndex)}${after(sealedAt, preconfirmedAt)}`
        : '',
      at: sealedAt,
    },
  ]
}

function detailsOf({ transaction, receipt, trace, traceProblem, status }: Found): View {
  return html`
    ${transaction === null ? null : transactionFacts(transaction, receipt)}
    ${promisesOf(status)}
    ${
      trace === undefined
        ? traceProblem === undefined
          ? null
          : html`<p class="note">The calls are not available: ${traceProblem}</p>`
        : html`<h3>Calls</h3>${callTree(trace)}`
    }
    ${receipt === null || receipt.logs.length === 0 ? null : logsOf(receipt)}
  `
}

function transactionFacts({ from, to, value, nonce }: Transaction, receipt: Receipt | null): View {
  return html`
    <dl class="facts">
      <div><dt>From</dt><dd class="hex" title=${from}>${ends(from)}</dd></div>
      <div><dt>To</dt><dd class="hex" title=${to ?? ''}>${to === null ? `creates ${ends(receipt?.contractAddress ?? 'a contract')}` : ends(to)}</dd></div>
      <div><dt>Value</dt><dd>${amount(BigInt(value))}</dd></div>
      <div><dt>Nonce</dt><dd>${count(Number(nonce))}</dd></div>
      ${
        receipt === null
          ? null
          : html`
              <div><dt>Outcome</dt><dd class=${receipt.status === '0x1' ? 'good' : 'error'}>${receipt.status === '0x1' ? 'success' : 'reverted'}</dd></div>
              <div><dt>Gas used</dt><dd>${gas(Number(receipt.gasUsed))}</dd></div>
              <div><dt>Logs</dt><dd>${count(receipt.logs.length)}</dd></div>
            `
      }
    </dl>
  `
}

const promisesOf = ({ promises = [] }: Status): View =>
  promises.some(({ fate, causes }) => (fate !== 'kept' && fate !== 'open') || causes !== undefined)
    ? html`<p class="note">Promised ${promises.length} times: ${promises.map(({ fate, causes = [] }) => [fate, ...causes].join(', ')).join('; ')}</p>`
    : null

const logsOf = ({ logs }: Receipt): View => html`
  <h3>Logs</h3>
  <ol class="logs">
    ${logs.slice(0, MAX_LOGS).map(
      ({ address, topics }, at) => html`
        <li key=${at}>
          <span class="hex" title=${address}>${ends(address)}</span>
          ${topics.map((topic) => html`<span class="hex note" title=${topic}>${ends(topic)}</span>`)}
        </li>
      `,
    )}
  </ol>
  ${logs.length > MAX_LOGS ? html`<p class="note">and ${count(logs.length - MAX_LOGS)} more</p>` : null}
`
