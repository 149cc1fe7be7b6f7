/** This module formats what a session shows: outcomes, diffs, warm sets, frames and steps. */

import { createHash } from 'node:crypto'
import type { Outcome, TraceSink, TraceStep } from '../../../engine/evm/engine.ts'
import { isEmpty } from '../../../engine/evm/journal/journaled-state.ts'
import { OPCODES } from '../../../engine/evm/opcodes.ts'
import type { Bytes } from '../../../engine/primitives/bytes.ts'
import { bytesToHex } from '../../../engine/primitives/hex.ts'
import type { Log } from '../../../engine/primitives/receipt.ts'
import type { AccessList } from '../../../engine/primitives/transaction.ts'
import type { AccountState, StateDiff } from '../../../engine/state/diff.ts'

/** Longer bytes are printed as a digest. */
const PRINTED_BYTES = 200

/** Formats bytes in hex; long ones as their length and a digest. */
export const textOf = (bytes: Bytes): string =>
  bytes.length <= PRINTED_BYTES
    ? bytesToHex(bytes)
    : `${bytes.length} bytes ${createHash('sha1').update(bytes).digest('hex')}`

export const logText = ({ address, topics, data }: Log): string =>
  `${bytesToHex(address)} [${topics.map(bytesToHex).join(' ')}] ${textOf(data)}`

export function outcomeText(outcome: Outcome): string {
  switch (outcome.status) {
    case 'success': {
      const { gasLeft, refund, output, logs, created } = outcome
      const contract = created === undefined ? '' : ` created ${bytesToHex(created)}`
      return `success left ${gasLeft} refund ${refund} output ${textOf(output)}${contract} logs ${logs.map(logText).join(', ')}`
    }
    case 'revert':
      return `revert left ${outcome.gasLeft} output ${textOf(outcome.output)}`
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
 * Formats a diff in sorted order, because a diff does not define an order.
 * @param isOpen before the end of the transaction, where an empty account equals an absent one
 */
export function diffLines(diff: StateDiff, isOpen: boolean): string[] {
  return diff
    .filter(({ after, slots }) => !isOpen || !isNobody(after) || slots.length > 0)
    .map(({ address, before, after, slots, code }) => {
      const changes = slots
        .map((slot) => `${[slot.key, slot.before, slot.after].map(wordText).join(' ')}`)
        .toSorted()
      const newCode = code === undefined ? '' : ` code ${textOf(code)}`
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

/**
 * Records lines while the session runs. Touches are recorded apart, because their order relative to
 * steps is not observable.
 */
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
        `${indent()}${kind} ${bytesToHex(from)} ${target} value ${value} gas ${gas} input ${textOf(input)}`,
      )
      depth++
    },
    exit(error, gasUsed, output) {
      depth--
      lines.push(`${indent()}end ${error ?? 'ok'} used ${gasUsed} output ${textOf(output)}`)
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
      const isComplete = steps < FULL_STEPS || steps % THEN_EVERY === 0
      steps++
      lines.push(`${indent()}${stepText(step)}${isComplete ? wordsText(step) : ''}`)
    },
  }
}
/**
 * The first steps of a run print the stack and memory in full, later steps only now and then. A
 * stack of 1,000 words costs as much as everything else.
 */
const FULL_STEPS = 300
const THEN_EVERY = 8

const nameOf = (op: number): string => OPCODES[op]?.name ?? `0x${op.toString(16)}`

function stepText({ pc, op, gas, cost, depth, address, refund, error }: TraceStep): string {
  const step = `${depth} ${bytesToHex(address)} ${pc} ${nameOf(op)}`
  return `${step} gas ${gas} cost ${cost} refund ${refund} ${error ?? ''}`
}

function wordsText(step: TraceStep): string {
  const stack = step.stack()
  const words = stack
    .slice(-STACK_PRINTED)
    .map((word) => word.toString(16))
    .join(' ')
  return ` stack ${stack.length}: ${words} memory ${textOf(step.memory())} returned ${textOf(step.returnData())}`
}
/**
 * The top words of the stack are printed, because deeper ones were printed when they were pushed.
 */
const STACK_PRINTED = 4
