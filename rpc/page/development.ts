/** Panel of a development chain: its accounts with a faucet, and its controls. */
import type { Call } from './connection.ts'
import { ends, tokens } from './format.ts'
import { html, useEffect, useRef, useState, type View } from './view.ts'

type Account = { readonly address: string; readonly balance: bigint; readonly nonce: number }
type Props = {
  readonly call: Call
  /** Height of the pending block; a change refreshes the balances. */
  readonly pending: number
  readonly onFollow: (hash: string) => void
}

export function Development({ call, pending, onFollow }: Props): View {
  return html`
    <section class="panel development" aria-labelledby="development-title">
      <header>
        <h2 id="development-title">Development chain</h2>
        <span class="note">its private keys are public</span>
      </header>
      <${Controls} call=${call} />
      <${Faucet} call=${call} onFollow=${onFollow} />
      <${Accounts} call=${call} pending=${pending} />
    </section>
  `
}

type Control = {
  readonly name: string
  readonly what: string
  readonly method: string
  readonly params: (amount: number) => readonly unknown[]
  readonly isGrave?: boolean
}
const CONTROLS: readonly Control[] = [
  {
    name: 'Pause',
    what: 'seals the block in progress and stops making blocks',
    method: 'dev_pause',
    params: () => [],
  },
  {
    name: 'Resume',
    what: 'makes blocks automatically again',
    method: 'dev_resume',
    params: () => [],
  },
  {
    name: 'Step',
    what: 'makes one flashblock of a paused chain',
    method: 'dev_step',
    params: () => [],
  },
  {
    name: 'Seal',
    what: 'seals the block in progress, or makes one',
    method: 'dev_seal',
    params: () => [],
  },
  {
    name: 'Mine',
    what: 'makes this many blocks at once',
    method: 'anvil_mine',
    params: (amount) => [amount],
  },
  {
    name: 'Reorg',
    what: 'removes this many blocks and the block in progress',
    method: 'dev_reorg',
    params: (depth) => [{ depth }],
    isGrave: true,
  },
  {
    name: 'Equivocate',
    what: 'sends a second version of the newest flashblock that has transactions, without them',
    method: 'dev_equivocate',
    params: () => [],
    isGrave: true,
  },
  {
    name: 'Gap',
    what: 'omits the next flashblock from every feed',
    method: 'dev_gap',
    params: () => [],
    isGrave: true,
  },
  {
    name: 'Silence',
    what: 'silences the feed for this many seconds',
    method: 'dev_silence',
    params: (seconds) => [{ ms: 1_000 * seconds }],
    isGrave: true,
  },
]
const MAX_AMOUNT = 1_000

function Controls({ call }: Pick<Props, 'call'>): View {
  const [amount, setAmount] = useState(1)
  const [said, setSaid] = useState('')
  const [isBusy, setBusy] = useState(false)
  const run = async ({ name, method, params }: Control) => {
    setBusy(true)
    setSaid(`${name} …`)
    try {
      const result = await call(method, params(amount))
      setSaid(`${name}: ${summary(result)}`)
    } catch (error) {
      setSaid(`${name}: ${(error as Error).message}`)
    } finally {
      setBusy(false)
    }
  }
  return html`
    <h3>Controls</h3>
    <div class="controls" role="group" aria-label="Controls">
      ${CONTROLS.map(
        (control) => html`
          <button
            type="button"
            key=${control.name}
            class=${control.isGrave === true ? 'grave' : ''}
            title=${control.what}
            disabled=${isBusy}
            onClick=${() => run(control)}
          >
            ${control.name}
          </button>
        `,
      )}
      <label>
        blocks or seconds
        <input
          type="number"
          min="1"
          max=${MAX_AMOUNT}
          value=${amount}
          onInput=${(event: Event) => setAmount(bounded((event.target as HTMLInputElement).value))}
        />
      </label>
    </div>
    <p class="said" role="status">${said}</p>
  `
}

const bounded = (text: string): number =>
  Math.min(MAX_AMOUNT, Math.max(1, Math.trunc(Number(text)) || 1))

const DISPLAYED = 120
function summary(result: unknown): string {
  const text = JSON.stringify(result) ?? 'done'
  if (text === 'true' || text === 'null') return 'done'
  return text.length > DISPLAYED ? `${text.slice(0, DISPLAYED)}…` : text
}

const ADDRESS = /^0x[0-9a-fA-F]{40}$/
const WEI = 10n ** 18n

function Faucet({ call, onFollow }: Omit<Props, 'pending'>): View {
  const [to, setTo] = useState('')
  const [amount, setAmount] = useState('1')
  const [said, setSaid] = useState('')
  const send = async (event: Event) => {
    event.preventDefault()
    const target = to.trim()
    if (!ADDRESS.test(target)) return setSaid('An address is 0x and 40 hex digits.')
    if (!/^\d{1,6}(\.\d{1,9})?$/.test(amount)) return setSaid('An amount is a number such as 1.5.')
    try {
      const [from] = await call<readonly string[]>('eth_accounts')
      const value = (BigInt(Math.round(Number(amount) * 1e9)) * WEI) / 1_000_000_000n
      const hash = await call<string>('eth_sendTransaction', [
        { from, to: target, value: `0x${value.toString(16)}` },
      ])
      setSaid('')
      onFollow(hash)
    } catch (error) {
      setSaid((error as Error).message)
    }
  }
  return html`
    <h3>Faucet</h3>
    <form class="faucet" onSubmit=${send}>
      <label class="spoken" for="faucet-to">Address</label>
      <input
        id="faucet-to"
        class="hex"
        placeholder="Address that gets tokens"
        autocomplete="off"
        spellcheck=${false}
        maxlength="42"
        value=${to}
        onInput=${(event: Event) => setTo((event.target as HTMLInputElement).value)}
      />
      <label class="spoken" for="faucet-amount">Tokens</label>
      <input
        id="faucet-amount"
        class="amount"
        inputmode="decimal"
        value=${amount}
        onInput=${(event: Event) => setAmount((event.target as HTMLInputElement).value)}
      />
      <button type="submit">Send</button>
    </form>
    <p class="said error" role="status">${said}</p>
  `
}

function Accounts({ call, pending }: Pick<Props, 'call' | 'pending'>): View {
  const [accounts, setAccounts] = useState<readonly Account[]>([])
  const [isOpen, setOpen] = useState(false)
  /** At most one request runs at a time, however many blocks arrive meanwhile. */
  const isRequesting = useRef(false)
  useEffect(() => {
    if (!isOpen || isRequesting.current) return
    isRequesting.current = true
    void readAccounts(call).then((all) => {
      isRequesting.current = false
      setAccounts(all)
    })
  }, [isOpen, pending])
  return html`
    <details open=${isOpen} onToggle=${(event: Event) => setOpen((event.target as HTMLDetailsElement).open)}>
      <summary><h3>Accounts</h3></summary>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col">Address</th><th scope="col">Tokens</th><th scope="col">Nonce</th></tr></thead>
          <tbody>
            ${accounts.map(
              ({ address, balance, nonce }) => html`
                <tr key=${address}>
                  <th scope="row" class="hex" title=${address}>${ends(address)}</th>
                  <td>${tokens(balance)}</td>
                  <td>${nonce}</td>
                </tr>
              `,
            )}
          </tbody>
        </table>
      </div>
    </details>
  `
}

/** Reads the accounts; empty when the node does not answer. */
async function readAccounts(call: Call): Promise<readonly Account[]> {
  try {
    const addresses = await call<readonly string[]>('eth_accounts')
    return await Promise.all(
      addresses.map(async (address) => ({
        address,
        balance: BigInt(await call<string>('eth_getBalance', [address, 'pending'])),
        nonce: Number(await call<string>('eth_getTransactionCount', [address, 'pending'])),
      })),
    )
  } catch {
    return []
  }
}
