/** Before a row is measured: both servers answer a sample of its questions, and alike. */
import { isDeepStrictEqual } from 'node:util'
import type { Server } from './servers.ts'
import { bodyOf, type Question, type Row } from './workloads/row.ts'

/** Far from those that are measured, which no cache shall know; of a row that always asks the same it is the same one. */
const SAMPLES = [9_000_000, 9_000_001, 9_012_345]

/**
 * @param options the first server is flashnode
 * @returns those that are measured: without the peer where it does not have this row, and may lack it
 * @throws where an answer is an error or differs
 */
export async function agree(
  row: Row,
  options: { readonly servers: readonly Server[]; readonly isPeerOptional: boolean },
): Promise<readonly Server[]> {
  const [ours, peer] = options.servers as [Server, Server]
  // What is sent can be sent once.
  if (row.amount !== undefined) return options.servers
  for (const at of SAMPLES) {
    const question = row.question(at)
    const mine = await answerOf(ours, question)
    if ('error' in mine) throw new Error(`${ours.name}: ${row.name}: ${mine.error}`)
    const theirs = await answerOf(peer, question)
    if ('error' in theirs) {
      if (options.isPeerOptional) return [ours]
      throw new Error(`${peer.name}: ${row.name}: ${theirs.error}`)
    }
    const gist = row.gist ?? ((result: unknown) => result)
    const both = [mine.result, theirs.result].map(gist)
    // It answers in another form.
    if (both[1] === undefined && options.isPeerOptional) return [ours]
    if (!isDeepStrictEqual(both[0], both[1])) throw new Error(difference(row, both))
  }
  return options.servers
}

const difference = ({ name }: Row, both: readonly unknown[]) =>
  `${name}: two answers\n${both.map((one) => `${JSON.stringify(one)}`.slice(0, 2_000)).join('\n')}`

type Reply = { readonly result?: unknown; readonly error?: { readonly message: string } }
/** Of a batch, its results. */
async function answerOf(
  { url }: Server,
  question: Question | readonly Question[],
): Promise<{ readonly result: unknown } | { readonly error: string }> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'POST', headers, body: bodyOf(question) })
  const reply = (await response.json()) as Reply | readonly (Reply & { readonly id: number })[]
  const replies = Array.isArray(reply) ? reply.toSorted((a, b) => a.id - b.id) : [reply as Reply]
  const error = replies.find((one) => one.error !== undefined)?.error
  if (error !== undefined) return { error: error.message }
  const results = replies.map(({ result }) => result)
  return { result: Array.isArray(reply) ? results : results[0] }
}
