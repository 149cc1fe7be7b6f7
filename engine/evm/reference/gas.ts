/**
 * Wraps the package's gas handlers in the checks of go-ethereum's interpreter, in its order and its
 * words (core/vm: Run, gas_table, operations_acl).
 */
import { type Common, Hardfork } from '@ethereumjs/common'
import { EVMError, type getOpcodesForHF } from '@ethereumjs/evm'
import { bigintToBytes } from '../../primitives/words.ts'
import {
  GAS_OVERFLOW,
  isBeyondWord,
  isMemoryOverflow,
  memoryEnd,
  OUT_OF_GAS,
  outOfGasFor,
  stackFault,
  WRITE_PROTECTION,
} from '../halt-reason.ts'
import { OPCODES } from '../opcodes.ts'

export type OpcodeMap = ReturnType<typeof getOpcodesForHF>['opcodeMap']
export type RunState = Parameters<OpcodeMap[number]['gasHandler']>[0]
/** All gas handlers of the package are asynchronous. */
type GasHandler = (runState: RunState, gas: bigint, common: Common) => Promise<bigint>

/** A halt whose reason is already in go-ethereum's words. */
export class Fault extends EVMError {
  readonly words: string
  constructor(words: string) {
    super(EVMError.errorMessages.OUT_OF_GAS)
    this.words = words
  }
}

/**
 * The constant gas of an opcode in go-ethereum's table; its dynamic gas is computed separately. An
 * opcode without a gas handler has only this part.
 */
export function constantGas(opcode: number, fee: bigint, common: Common): bigint {
  if (opcode === EXP || (opcode >= LOG0 && opcode <= LOG4)) return 0n
  const hasWarmAddresses = common.isActivatedEIP(2929)
  if (opcode === SELFDESTRUCT) return hasWarmAddresses ? fee : 0n
  return hasWarmAddresses && ACCOUNT_READERS.has(opcode) ? common.param('warmstoragereadGas') : fee
}

/**
 * Makes the gas handler with go-ethereum's checks before it. The handler throws a Fault if
 * go-ethereum's handler returns an error.
 */
export function checkedGas(opcode: number, handlers: OpcodeMap, common: Common): GasHandler {
  const { opcodeInfo } = handlers[opcode]!
  const constant = constantGas(opcode, opcodeInfo.feeBigInt, common)
  const isWrong = handlerFault(opcode, constant, common)
  const price = priceOf(opcode, handlers, constant)
  const operands = OPCODES[opcode]!.pops
  return (runState, gas, forks) => {
    const { stack, gasLeft } = runState
    if (stackFault(opcode, stack.length) !== undefined)
      throw new EVMError(EVMError.errorMessages.STACK_UNDERFLOW)
    if (gasLeft < constant) throw new Fault(OUT_OF_GAS)
    const taken = stack.peek(operands)
    const end = memoryEnd(opcode, taken)
    if (isBeyondWord(end)) throw new Fault(GAS_OVERFLOW)
    const why = isWrong(runState, taken)
    if (why !== undefined) throw new Fault(outOfGasFor(why))
    if (isMemoryOverflow(end)) throw new Fault(outOfGasFor(GAS_OVERFLOW))
    return price(runState, gas, forks)
  }
}

type HandlerFault = (runState: RunState, operands: readonly bigint[]) => string | undefined
const nothing: HandlerFault = () => undefined

/** Makes the check for errors of go-ethereum's gas handler other than memory size. */
function handlerFault(opcode: number, constant: bigint, common: Common): HandlerFault {
  if (opcode === SSTORE) {
    const hasSentry = common.gteHardfork(Hardfork.Istanbul)
    const sentry = hasSentry ? common.param('sstoreSentryEIP2200Gas') : -1n
    return ({ env, gasLeft }) =>
      env.isStatic ? WRITE_PROTECTION : gasLeft <= sentry ? SENTRY : undefined
  }
  if (opcode === CREATE || opcode === CREATE2) return creationFault(common)
  const cold = coldFault(opcode, constant, common)
  if (opcode === SELFDESTRUCT)
    return (runState, operands) =>
      runState.env.isStatic ? WRITE_PROTECTION : cold(runState, operands)
  if (!CALLS.has(opcode)) return nothing
  if (opcode !== CALL) return cold
  const isStaticTransfer: HandlerFault = ({ env }, operands) =>
    env.isStatic && operands[2] !== 0n ? WRITE_PROTECTION : undefined
  return common.isActivatedEIP(7702)
    ? (runState, operands) => isStaticTransfer(runState, operands) ?? cold(runState, operands)
    : (runState, operands) => cold(runState, operands) ?? isStaticTransfer(runState, operands)
}

function creationFault(common: Common): HandlerFault {
  if (!common.isActivatedEIP(3860))
    return ({ env }) => (env.isStatic ? WRITE_PROTECTION : undefined)
  const limit = common.param('maxInitCodeSize')
  return ({ env }, operands) => {
    if (env.isStatic) return WRITE_PROTECTION
    const size = operands[2]!
    if (isMemoryOverflow(operands[1]! + size)) return undefined
    return size > limit ? `max initcode size exceeded: code size ${size} limit ${limit}` : undefined
  }
}

/** The surcharge of a cold address is checked before everything else. */
function coldFault(opcode: number, constant: bigint, common: Common): HandlerFault {
  if (!common.isActivatedEIP(2929)) return nothing
  const at = opcode === SELFDESTRUCT ? 0 : 1
  const cold = coldSurcharge(opcode, common)
  return ({ gasLeft, interpreter }, operands) => {
    if (gasLeft - constant >= cold) return undefined
    return interpreter.journal.isWarmedAddress(lowAddress(operands[at]!)) ? undefined : OUT_OF_GAS
  }
}

/** The surcharge beyond the constant gas. */
const coldSurcharge = (opcode: number, common: Common): bigint =>
  opcode === SELFDESTRUCT
    ? common.param('coldaccountaccessGas')
    : common.param('coldaccountaccessGas') - common.param('warmstoragereadGas')

/** The package's handler, adapted to go-ethereum's behaviour. */
function priceOf(opcode: number, handlers: OpcodeMap, constant: bigint): GasHandler {
  // RETURNDATACOPY checks its bounds only when it runs, so it is priced like CALLDATACOPY.
  const entry = handlers[opcode === RETURNDATACOPY ? CALLDATACOPY : opcode]!
  const handler = entry.gasHandler as GasHandler
  if (CALLS.has(opcode)) return callPrice(opcode, handler, constant)
  if (opcode < LOG0 || opcode > LOG4) return handler
  // A log's write protection is checked only when the opcode runs.
  return (runState, gas, common) => {
    const { env } = runState
    const { isStatic } = env
    env.isStatic = false
    const price = handler(runState, gas, common)
    env.isStatic = isStatic
    return price
  }
}

/**
 * Computes the price and the frame's gas of a call. The handler gets plenty of gas, so that an
 * unaffordable call has a price too.
 */
function callPrice(opcode: number, handler: GasHandler, constant: bigint): GasHandler {
  return async (runState, fee, common) => {
    const { gasLeft, interpreter, stack, highestMemCost } = runState
    const [wanted, target, value] = stack.peek(3)
    const hasColdCost =
      common.isActivatedEIP(2929) && !interpreter.journal.isWarmedAddress(lowAddress(target!))
    runState.gasLeft = PLENTY
    let cost: bigint
    try {
      cost = await handler(runState, fee, common)
    } finally {
      runState.gasLeft = gasLeft
    }
    // go-ethereum checks the whole price inside its handler since Prague. Earlier forks leave out
    // the cost of a new account, and check value and memory only for CALL.
    let checked = cost
    if (!common.isActivatedEIP(7702)) {
      checked = constant + (hasColdCost ? coldSurcharge(opcode, common) : 0n)
      if (opcode === CALL) checked += runState.highestMemCost - highestMemCost
      if (opcode === CALL && value !== 0n) checked += common.param('callValueTransferGas')
    }
    if (gasLeft < checked) throw new Fault(outOfGasFor(OUT_OF_GAS))
    const left = gasLeft - cost
    const given = givenGas(wanted!, left, common.gteHardfork(Hardfork.TangerineWhistle))
    if (left < given) throw new UnpaidCall(cost + given)
    runState.messageGasLimit = given
    return cost
  }
}

/**
 * Gas that the frame of a call gets. Before EIP-150 it can exceed `left`; the caller checks the
 * sum.
 */
function givenGas(wanted: bigint, left: bigint, keepsPart: boolean): bigint {
  if (keepsPart) {
    const all = BigInt.asUintN(64, left)
    const max = all - all / 64n
    return wanted > max ? max : wanted
  }
  if (wanted >> 64n > 0n) throw new Fault(outOfGasFor(GAS_OVERFLOW))
  return wanted
}

/** Carries the price, because the call failed only for its price. */
export class UnpaidCall extends Fault {
  readonly cost: bigint
  constructor(cost: bigint) {
    super(OUT_OF_GAS)
    this.cost = cost
  }
}

export const lowAddress = (value: bigint) => bigintToBytes(value & ((1n << 160n) - 1n), 20)

const SENTRY = 'not enough gas for reentrancy sentry'
/** More gas than any call can ask for. */
const PLENTY = 1n << 257n

const EXP = 0x0a
const CALLDATACOPY = 0x37
export const RETURNDATACOPY = 0x3e
const SSTORE = 0x55
export const LOG0 = 0xa0
export const LOG4 = 0xa4
const CREATE = 0xf0
const CALL = 0xf1
const CALLCODE = 0xf2
const CREATE2 = 0xf5
const SELFDESTRUCT = 0xff
export const CALLS: ReadonlySet<number> = new Set([CALL, CALLCODE, 0xf4, 0xfa])
const ACCOUNT_READERS: ReadonlySet<number> = new Set([0x31, 0x3b, 0x3c, 0x3f, ...CALLS])
