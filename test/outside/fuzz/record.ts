/** What a session shows, in words: outcomes, diffs, warm sets, frames and steps. */

import { createHash } from 'node:crypto'
import type { Outcome, TraceSink, TraceStep } from '../../../engine/evm/engine.ts'
import { isEmpty } from '../../../engine/evm/journal/journaled-state.ts'
import { OPCODES } from '../../../engine/evm/opcodes.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Log } from '../../../engine/primitives/receipt.ts'
import type { AccessList } from '../../../engine/primitives/transaction.ts'
import type { AccountState, StateDiff } from '../../../engine/state/diff.ts'

/** Bytes beyond which only a digest of them is told. */
const SHOWN_BYTES = 200

/** In hex; of what is long its length and a digest. */
export const shown = (bytes: Bytes): string =>
  bytes.length <= SHOWN_BYTES
    ? bytesToHex(bytes)
    : `${bytes.length} bytes ${createHash('sha1').update(bytes).digest('hex')}`

export const logText = ({ address, topics, data }: Log): string =>
  `${bytesToHex(address)} [${topics.map(bytesToHex).join(' ')}] ${shown(data)}`

export function outcomeText(outcome: Outcome): string {
  switch (outcome.status) {
    case 'success': {
      const { gasLeft, refund, output, logs, created } = outcome
      const contract = created === undefined ? '' : ` created ${bytesToHex(created)}`
      return `success left ${gasLeft} refund ${refund} output ${shown(output)}${contract} logs ${logs.map(logText).join(', ')}`
    }
    case 'revert':
      return `revert left ${outcome.gasLeft} output ${shown(outcome.output)}`
    case 'halt':
      return `halt: ${outcome.reason}`
    case 'missing':
      return 'missing'
    case 'stopped':
      return `stopped: ${outcome.why}`
  }
}

const accountText = (account: AccountState | undefined): string =>
  account === undefined
    ? 'none'
    : `${account.nonce}/${account.balance}/${bytesToHex(account.codeHash).slice(0, 10)}`

/**
 * Sorted: a diff says what changed, and not in which order.
 * @param isOpen before the end of the transaction: an account that is empty and one that is not there are the same then
 */
export function diffLines(diff: StateDiff, isOpen: boolean): string[] {
  return diff
    .filter(({ after, slots }) => !isOpen || !isNobody(after) || slots.length > 0)
    .map(({ address, before, after, slots, code }) => {
      const changes = slots
        .map((slot) => `${[slot.key, slot.before, slot.after].map(wordText).join(' ')}`)
        .toSorted()
      const newCode = code === undefined ? '' : ` code ${shown(code)}`
      return `diff ${bytesToHex(address)} ${accountText(before)} -> ${accountText(isOpen && isNobody(after) ? undefined : after)}${newCode} {${changes.join(', ')}}`
    })
    .toSorted()
}
const isNobody = (account: AccountState | undefined): boolean =>
  account === undefined || isEmpty(account)
const wordText = (word: Bytes): string => BigInt(bytesToHex(word)).toString(16)

export const accessedText = (list: AccessList): string =>
  list
    .map(
      ({ address, storageKeys }) =>
        `${bytesToHex(address)}[${storageKeys.map(wordText).join(' ')}]`,
    )
    .join(' ')

/** Lines are written while the session runs; whether a touch is told before its step or after it nobody sees. */
export function recorder(detail: 'frames' | 'steps') {
  const [lines, touches]: [string[], string[]] = [[], []]
  return { sink: sinkOf(detail, lines, touches), lines: () => [...lines, ...touches] }
}

function sinkOf(detail: 'frames' | 'steps', lines: string[], touches: string[]): TraceSink {
  let depth = 0
  const indent = () => ' '.repeat(Math.min(depth, 20))
  const frames: TraceSink = {
    enter(kind, from, to, value, gas, input) {
      const target = to === undefined ? '-' : bytesToHex(to)
      lines.push(
        `${indent()}${kind} ${bytesToHex(from)} ${target} value ${value} gas ${gas} input ${shown(input)}`,
      )
      depth++
    },
    exit(error, gasUsed, output) {
      depth--
      lines.push(`${indent()}end ${error ?? 'ok'} used ${gasUsed} output ${shown(output)}`)
    },
    touch({ op, address, target, key, isFailed }) {
      const what = [target, key].flatMap((bytes) => (bytes === undefined ? [] : bytesToHex(bytes)))
      const failed = isFailed ? ' failed' : ''
      touches.push(
        `${indent()}touch ${nameOf(op)} by ${bytesToHex(address)}: ${what.join(' ')}${failed}`,
      )
    },
    log: (log) => void lines.push(`${indent()}log ${logText(log)}`),
  }
  if (detail === 'frames') return frames
  let steps = 0
  return {
    ...frames,
    step(step) {
      const isWhole = steps < WHOLE_STEPS || steps % THEN_EVERY === 0
      steps++
      lines.push(`${indent()}${stepText(step)}${isWhole ? wordsText(step) : ''}`)
    },
  }
}
/** Of a long run stack and memory are told now and then: a stack of 1,000 words costs as much as all else. */
const WHOLE_STEPS = 300
const THEN_EVERY = 8

const nameOf = (op: number): string => OPCODES[op]?.name ?? `0x${op.toString(16)}`

function stepText({ pc, op, gas, cost, depth, address, refund, error }: TraceStep): string {
  const place = `${depth} ${bytesToHex(address)} ${pc} ${nameOf(op)}`
  return `${place} gas ${gas} cost ${cost} refund ${refund} ${error ?? ''}`
}

function wordsText(step: TraceStep): string {
  const stack = step.stack()
  const words = stack
    .slice(-STACK_SHOWN)
    .map((word) => word.toString(16))
    .join(' ')
  return ` stack ${stack.length}: ${words} memory ${shown(step.memory())} returned ${shown(step.returnData())}`
}
/** From the top: what lies deeper was shown when it was pushed. */
const STACK_SHOWN = 4
