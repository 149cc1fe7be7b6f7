/**
 * `--verify-sample`: a share of the calls that the pool has answered is run again on the other engine, after the answer, and of the answers that
 * are given again at a later record, and a share of the canonical blocks, one at a time. Where they differ, it is written into a file of the data directory; a block that differs is the last one.
 */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type AnsweredCall,
  VERIFIED,
  VERIFY_CALL,
  type Verdict,
} from '../../rpc/methods/shared/verify.ts'
import { type BlockVerdict, VERIFY_BLOCK } from '../../rpc/methods/shared/verify-block.ts'
import {
  type Executor,
  OWN_CLIENT,
  type PoolCall,
  type PoolReply,
  resultText,
} from '../../rpc/seam/executor.ts'
import { laneMs } from '../../rpc/seam/lane.ts'
import type { VerifiedCounts } from '../observe/gauges.ts'
import type { Report } from '../observe/reporter.ts'
import type { Asking } from '../pool/ask.ts'

export type VerifierOptions = Asking & {
  /** 0 to 1. */
  readonly share: number
  /** 0 to 1, without 1. */
  readonly random: () => number
  readonly report: Report
  /** Writes the call down, and says where; undefined: nowhere. */
  readonly keep: (mismatch: object) => string | undefined
  /** A block differs: nothing more may be shown on it. */
  readonly distrust: (reason: string) => void
}
export type Verifier = Executor & {
  /** A block has become canonical. */
  readonly block: (number: number) => void
  /** Since the start. */
  readonly counts: () => VerifiedCounts
}

/** What executes as `executor` does. */
export function createVerifier(options: VerifierOptions): Verifier {
  const { executor, share, random } = options
  let isBusy = false
  let verified = 0
  let verifiedBlocks = 0
  let mismatches = 0

  async function verify(call: PoolCall, answered: Answered): Promise<void> {
    const verdict = await ask(options, call, answered)
    if (verdict === undefined || verdict.verdict === 'unknown') return
    verified++
    if (verdict.verdict === 'same') return
    mismatches++
    const { method, params, answer } = callOf(call, answered)
    const { verdict: _, ...other } = verdict
    const file = options.keep({ method, params, endpoint: call.endpoint, answer, other })
    options.report('engines_differ', { method, file, reason: file ?? 'no file is written' })
  }
  async function verifyBlock(number: number): Promise<void> {
    const verdict = await askBlock(options, number)
    if (verdict === undefined || verdict.verdict === 'unknown') return
    verifiedBlocks++
    if (verdict.verdict === 'same') return
    mismatches++
    const file = options.keep({ block: number, ...verdict })
    const { what, engine } = verdict
    const reason = `block ${number} has another ${what} on the ${engine} engine`
    options.report('engines_differ', { number, file, reason })
    options.distrust(`${reason}${file === undefined ? '' : `, see ${file}`}`)
  }
  function alone(work: () => Promise<void>): void {
    isBusy = true
    void work().finally(() => {
      isBusy = false
    })
  }
  return {
    async execute(call) {
      const reply = await executor.execute(call)
      if (isBusy || !VERIFIED.has(call.method.name) || random() >= share) return reply
      if (isAnswered(reply)) alone(() => verify(call, reply))
      return reply
    },
    carried(call, reply) {
      if (isBusy || random() >= share) return
      const now = { ...reply, record: call.record }
      if (isAnswered(now)) alone(() => verify(call, now))
    },
    block(number) {
      if (!isBusy && random() < share) alone(() => verifyBlock(number))
    },
    counts: () => ({ verified, verifiedBlocks, mismatches }),
  }
}

type Answered = Exclude<PoolReply, { readonly pieces: unknown } | { readonly stale: true }>

const isAnswered = (reply: PoolReply): reply is Answered =>
  ('result' in reply || 'error' in reply) && reply.record !== undefined

function callOf(call: PoolCall, answered: Answered): AnsweredCall {
  const params: readonly unknown[] = JSON.parse(call.text)
  const { record: _, pending: __, reads: ___, ...answer } = answered
  return { method: call.method.name, params, answer }
}

/** undefined: the record is gone, or the pool has no time for it. */
async function ask(
  { executor, limits, now }: Asking,
  call: PoolCall,
  answered: Answered,
): Promise<Verdict | undefined> {
  const params = [callOf(call, answered)]
  const reply = await executor.execute({
    ...{ method: VERIFY_CALL, params, text: JSON.stringify(params), endpoint: call.endpoint },
    record: answered.record,
    deadline: now() + laneMs(VERIFY_CALL.runs, limits),
    client: OWN_CLIENT,
  })
  return 'result' in reply ? JSON.parse(reply.result) : undefined
}

/** undefined as above. */
async function askBlock(
  { executor, limits, now }: Asking,
  number: number,
): Promise<BlockVerdict | undefined> {
  const reply = await executor.execute({
    ...{ method: VERIFY_BLOCK, params: [number], text: `[${number}]`, endpoint: 'standard' },
    record: undefined,
    deadline: now() + laneMs(VERIFY_BLOCK.runs, limits),
    client: OWN_CLIENT,
  })
  return 'error' in reply || 'stale' in reply ? undefined : JSON.parse(resultText(reply))
}

/** Of one directory: whoever looks needs few, and a node that differs does so often. */
const MOST_FILES = 16

/** Writes to `directory/mismatches/1.json` and so on, 16 of them; `cell` names the thread where there are several. */
export function mismatchFiles(directory: string, cell?: number): VerifierOptions['keep'] {
  const folder = join(directory, 'mismatches')
  return (mismatch) => {
    try {
      mkdirSync(folder, { recursive: true })
      const count = readdirSync(folder).length
      if (count >= MOST_FILES) return undefined
      const of = cell === undefined ? '' : `cell-${cell}-`
      const path = join(folder, `${of}${count + 1}.json`)
      writeFileSync(path, `${JSON.stringify(mismatch, undefined, 2)}\n`)
      return path
    } catch {
      // A disk that fails is heard of elsewhere.
      return undefined
    }
  }
}
