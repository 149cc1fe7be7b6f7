/** What a row of the table asks, and of which servers. */
import type { Server } from '../servers.ts'

export type Question = { readonly method: string; readonly params: readonly unknown[] }
export type Row = {
  readonly name: string
  /** At most: dear questions would wait in a queue otherwise. */
  readonly connections: number
  /** Answers per CPU-second over anvil's. */
  readonly aim?: number
  /** A peer that does not have the method, or this form of it, has no figures. */
  readonly isPeerOptional?: true
  /** @param at how many questions a server was asked before: where no answer shall serve twice, each of them is another question */
  question(at: number): Question | readonly Question[]
  /** What of an answer both servers must agree on; all of it by default. */
  gist?(result: unknown): unknown
  /** Questions of a round, instead of seconds: those that must be made beforehand. */
  readonly amount?: number
  /** Until what a server was told is done. The processor time of it is counted, not the seconds. */
  settle?(server: Server, asked: number): Promise<void>
}
/** Rows that share a pair of servers, started for them. */
export type Group = {
  readonly rows: readonly Row[]
  /** Of the first token. */
  readonly holders: number
  /** flashnode gets them by transactions: they are many. */
  readonly isFilled?: true
  /**
   * A block each second. Where nothing is sent anvil makes none: it hashes and copies all of its state for each, so that with 100,000
   * holders a second is not enough for one.
   */
  readonly hasBlocks: boolean
  /** anvil takes down each step of what it mines: its struct logs are empty otherwise. */
  readonly hasSteps?: true
  /** Before the first row. */
  prepare?(servers: readonly Server[]): Promise<void>
}

export const REPEATED = 'repeated'
export const NEVER_THE_SAME = 'never the same'
type Kind = Omit<Row, 'question'> & { readonly ask: Row['question'] }

/** One question again and again, so that it is answered from a cache where there is one, and never twice the same. */
export const twice = ({ ask, ...kind }: Kind): readonly Row[] => [
  { ...withoutAim(kind), name: `${kind.name}, ${REPEATED}`, question: () => ask(0) },
  { ...kind, name: `${kind.name}, ${NEVER_THE_SAME}`, question: ask },
]
// The aims are for what is computed.
const withoutAim = ({ aim: _, ...kind }: Omit<Kind, 'ask'>): Omit<Kind, 'ask'> => kind

/** As it is sent. */
export const bodyOf = (question: Question | readonly Question[]): string =>
  'method' in question ? JSON.stringify(callOf(question, 1)) : JSON.stringify(question.map(callOf))
const callOf = ({ method, params }: Question, id: number) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
})
