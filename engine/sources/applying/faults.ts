/** What can be said of a leader's diff without executing: it is of this flashblock, over this state, and does what its transactions must. */
import { isEdit } from '../../execution/transaction/edits.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { bytesToHex } from '../../primitives/hex.ts'
import { EMPTY_HASH } from '../../primitives/keccak.ts'
import type { Log } from '../../primitives/receipt.ts'
import { isSigned, type Transaction } from '../../primitives/transaction.ts'
import { equalBytes } from '../../primitives/words.ts'
import { hashOfBefore } from '../../state/before.ts'
import type { AccountChange, AccountState, StateDiff } from '../../state/diff.ts'
import { isSameAccount } from '../../state/diff-codec.ts'
import type { LaidState } from '../../state/laid.ts'
import { latin1 } from '../../state/words.ts'
import { type ToldOutcome, unpackOutcomes } from './outcomes.ts'
import { wrongSender } from './senders.ts'
import type { LeaderFault, ToldDiff } from './types.ts'

const fault = (kind: string, message: string): LeaderFault => ({ kind, message })

/**
 * Whether it is of this flashblock, whose number, index and payload it has. 'other': of another one of that place, as a feed may have sent it, or
 * the leader made it of what its feed lacked; it says so by its hash.
 */
export function faultOfBinding(
  told: ToldDiff,
  block: {
    readonly hash: Bytes
    readonly parentHash: Bytes
    readonly transactions: readonly Transaction[]
  },
): LeaderFault | 'other' | undefined {
  if (!told.isFinal && !equalBytes(told.hash, block.hash)) return 'other'
  const wrong = differenceOf(told, block)
  // With the hash of the whole block it says nothing of this flashblock's.
  return wrong !== undefined && told.isFinal && told.payloadId !== undefined ? 'other' : wrong
}

function differenceOf(
  told: ToldDiff,
  block: { readonly parentHash: Bytes; readonly transactions: readonly Transaction[] },
): LeaderFault | undefined {
  if (!equalBytes(told.parentHash, block.parentHash))
    return fault(
      'parent',
      `it stands on ${bytesToHex(told.parentHash)}, here ${bytesToHex(block.parentHash)}`,
    )
  const { transactions } = block
  if (told.hashes.length !== transactions.length * 32)
    return fault(
      'transactions',
      `it has ${told.hashes.length / 32} transactions, here ${transactions.length}`,
    )
  const differs = transactions.findIndex(
    ({ hash }, at) => !equalBytes(told.hashes.subarray(at * 32, at * 32 + 32), hash),
  )
  return differs < 0
    ? undefined
    : fault('transactions', `its transaction ${differs} is another one than here`)
}

/** @param changes with the values before that are had here; `state`: before them @throws {MissingError} {ViewError} */
export function faultOfValues(
  told: Pick<ToldDiff, 'before'>,
  changes: StateDiff,
  over: {
    readonly state: LaidState
    readonly transactions: readonly Transaction[]
    /** Nothing but deposits makes wei. */
    readonly isOptimism: boolean
  },
): LeaderFault | undefined {
  const { state, transactions, isOptimism } = over
  if (!equalBytes(hashOfBefore(changes), told.before))
    return fault('before', 'the values before it are others than here')
  const now = state.accountsNow(changes)
  const steps = changes.map((change, at): Step => ({ ...change, now: now[at] }))
  for (const step of steps) {
    const wrong = faultOfCode(step)
    if (wrong !== undefined) return wrong
  }
  return (
    faultOfNonces(steps, transactions) ??
    (isOptimism && !transactions.some(isEdit) ? faultOfBalances(steps, transactions) : undefined)
  )
}

/** `now`: before the flashblock; `before` is before its block. */
type Step = AccountChange & { readonly now: AccountState | undefined }

function faultOfCode({ address, now, after, code }: Step): LeaderFault | undefined {
  if (after === undefined || code !== undefined || equalBytes(after.codeHash, EMPTY_HASH))
    return undefined
  return equalBytes(now?.codeHash ?? EMPTY_HASH, after.codeHash)
    ? undefined
    : fault('code', `${bytesToHex(address)} gets a code that is not told`)
}

/** Each sender's nonce is behind its last transaction, and where nothing else can raise it, right behind. */
function faultOfNonces(
  steps: readonly Step[],
  transactions: readonly Transaction[],
): LeaderFault | undefined {
  const byAddress = new Map(steps.map((step) => [latin1(step.address), step]))
  const last = new Map<string, Transaction & { readonly nonce: bigint }>()
  for (const transaction of transactions)
    if (isSigned(transaction)) last.set(latin1(transaction.from), transaction)
  const hasDelegations = transactions.some(({ type }) => type === 4)
  const depositors = new Set(
    transactions.flatMap(({ type, from }) => (type === 0x7e ? [latin1(from)] : [])),
  )
  for (const [name, { from, nonce }] of last) {
    const { now, after } = byAddress.get(name) ?? {}
    if (after === undefined)
      return fault('account', `the sender ${bytesToHex(from)} is not changed`)
    const isPlain =
      !hasDelegations &&
      !depositors.has(name) &&
      (now === undefined || equalBytes(now.codeHash, EMPTY_HASH))
    if (after.nonce <= nonce || (isPlain && after.nonce !== nonce + 1n))
      return fault(
        'nonce',
        `${bytesToHex(from)} has nonce ${after.nonce} after its transaction ${nonce}`,
      )
  }
  return undefined
}

/** A contract that destroys itself may lose some wei: less than before is no fault. */
function faultOfBalances(
  steps: readonly Step[],
  transactions: readonly Transaction[],
): LeaderFault | undefined {
  let more = 0n
  for (const { now, after } of steps) more += (after?.balance ?? 0n) - (now?.balance ?? 0n)
  const minted = transactions.reduce(
    (sum, transaction) => (transaction.type === 0x7e ? sum + transaction.mint : sum),
    0n,
  )
  return more <= minted
    ? undefined
    : fault('balance', `${more} wei more than before, ${minted} were minted`)
}

/** Against what was executed here. */
export function faultOfOutcome(
  told: ToldDiff,
  own: {
    readonly transactions: readonly Transaction[]
    readonly changes: StateDiff
    readonly outcomes: readonly ToldOutcome[]
  },
  toldChanges: StateDiff,
): LeaderFault | undefined {
  const liar = own.transactions.findIndex(
    ({ from }, at) => !equalBytes(from, told.senders.subarray(at * 20, at * 20 + 20)),
  )
  if (liar >= 0)
    return wrongSender(own.transactions[liar]!, told.senders.subarray(liar * 20, liar * 20 + 20))
  const outcomes = unpackOutcomes(told.outcomes)
  const differs = own.outcomes.findIndex((one, at) => !isSameOutcome(one, outcomes[at]!))
  if (differs >= 0) return fault('receipt', `transaction ${differs} came out otherwise here`)
  const wrong = changedOtherwise(own.changes, toldChanges)
  if (wrong !== undefined) return fault('executed', `${bytesToHex(wrong)} came out otherwise here`)
  return equalBytes(hashOfBefore(own.changes), told.before)
    ? undefined
    : fault('before', 'the values before it are others than here')
}

function isSameOutcome(a: ToldOutcome, b: ToldOutcome): boolean {
  return (
    a.isSuccess === b.isSuccess &&
    a.cumulativeGasUsed === b.cumulativeGasUsed &&
    a.gasUsed === b.gasUsed &&
    a.depositNonce === b.depositNonce &&
    a.logs.length === b.logs.length &&
    a.logs.every((log, at) => isSameLog(log, b.logs[at]!))
  )
}

const isSameLog = (a: Log, b: Log): boolean =>
  equalBytes(a.address, b.address) &&
  equalBytes(a.data, b.data) &&
  a.topics.length === b.topics.length &&
  a.topics.every((topic, at) => equalBytes(topic, b.topics[at]!))

/** The first address that is changed in one way here and in another there. */
function changedOtherwise(ours: StateDiff, theirs: StateDiff): Bytes | undefined {
  const open = new Map(theirs.map((change) => [latin1(change.address), change]))
  for (const change of ours) {
    const other = open.get(latin1(change.address))
    if (other === undefined || !isSameChange(change, other)) return change.address
    open.delete(latin1(change.address))
  }
  return open.values().next().value?.address
}

function isSameChange(a: AccountChange, b: AccountChange): boolean {
  const slots = new Map(b.slots.map(({ key, after }) => [latin1(key), after]))
  return (
    isSameAccount(a.after, b.after) &&
    a.slots.length === slots.size &&
    a.slots.every(({ key, after }) => {
      const other = slots.get(latin1(key))
      return other !== undefined && equalBytes(other, after)
    }) &&
    (a.code === undefined) === (b.code === undefined)
  )
}
