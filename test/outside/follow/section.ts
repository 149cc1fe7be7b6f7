/** A section is a part of the test that can run alone. */
import type { Check } from '../../kit/checks.ts'
import type { Compared, Comparer } from './compare.ts'
import type { Leader } from './nodes.ts'

export type Around = {
  readonly leader: Leader
  readonly random: () => number
  readonly check: Check
  readonly skip: (what: string, why: string) => void
  /** The log of each follower is printed at its end. */
  readonly isLogged: boolean
  /** The minimum number of comparisons of a mode. */
  readonly comparisons: number
  /** The number of starts after a kill, each at another moment of the chain. */
  readonly restarts: number
}
export type Section = (around: Around) => Promise<void>

const WAIT_MS = 15
/** The pauses between rounds spread the comparisons over many blocks. */
const ROUND_MS = 100

/**
 * Compares until `count` responses are compared, `pending` of them on the pending block, or the
 * time is over.
 */
export async function compareFor(
  comparer: Comparer,
  {
    count,
    pending = 0,
    withinMs,
  }: { readonly count: number; readonly pending?: number; readonly withinMs: number },
): Promise<Compared> {
  const end = performance.now() + withinMs
  const already = { ...comparer.compared }
  const isEnough = () =>
    comparer.compared.total - already.total >= count &&
    comparer.compared.pending - already.pending >= pending
  for (let round = 0; performance.now() < end && !isEnough(); round++) {
    const compared = await (round % 3 === 2 ? comparer.sealed() : comparer.pending())
    await new Promise((resolve) => setTimeout(resolve, compared === 0 ? WAIT_MS : ROUND_MS))
  }
  return comparer.compared
}

/** Whether the pending block is equal again within the time. */
export async function pendingRestored(comparer: Comparer, withinMs: number): Promise<boolean> {
  const end = performance.now() + withinMs
  while (performance.now() < end) {
    if ((await comparer.pending().catch(() => 0)) > 0) return true
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS))
  }
  return false
}

/** Formats the first differences and the refusals for the report. */
export function summaryOf({ total, pending, differences, refused }: Compared): string {
  const listed = differences.slice(0, 5).map(({ where, question, leader, follower }) => {
    const text = (value: unknown) => (JSON.stringify(value) ?? 'nothing').slice(0, 2_000)
    return `\n     ${where} ${question.method} ${JSON.stringify(question.params)}\n       ${text(leader)}\n       ${text(follower)}`
  })
  const refusals = Object.entries(refused).map(([what, times]) => `\n     ${times} × ${what}`)
  return `${total} compared, ${pending} of them on pending, ${differences.length} differ${listed.join('')}${refusals.join('')}`
}
