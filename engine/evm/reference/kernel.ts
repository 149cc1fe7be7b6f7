/** What the sessions of one rule set share: parameters, metered opcodes, precompiled contracts, jump tables. */
import { Common, Mainnet, type ParamsDict } from '@ethereumjs/common'
import {
  type EVM,
  EVMError,
  getOpcodesForHF,
  type PrecompileFunc,
  paramsEVM,
} from '@ethereumjs/evm'
import type { EvmRules } from '../../chainspec/types.ts'
import type { Bytes } from '../../primitives/bytes.ts'
import { keccak256 } from '../../primitives/keccak.ts'
import { fromLatin1 } from '../../state/words.ts'
import type { MovedPrecompile } from '../engine.ts'
import { RETURN_DATA_BOUNDS, stackFault } from '../halt-reason.ts'
import {
  checkedGas,
  Fault,
  LOG0,
  LOG4,
  type OpcodeMap,
  RETURNDATACOPY,
  type RunState,
} from './gas.ts'
import { type Meter, Stopped } from './meter.ts'
import { precompiledContracts } from './precompiles.ts'

type Handler = OpcodeMap[number]['opHandler']
type JumpTable = ReturnType<RunState['interpreter']['_getValidJumpDestinations']>

export type Kernel = {
  readonly rules: EvmRules
  readonly common: Common
  readonly opcodes: OpcodeMap
  /** The same, telling the EVM's `runTrace`; made when first asked for. */
  readonly tracedOpcodes: OpcodeMap
  readonly precompiles: Map<string, PrecompileFunc>
  /** Addresses of the precompiled contracts as map keys. */
  readonly alwaysWarm: ReadonlySet<string>
}
/** An EVM that runs metered opcodes; with traced ones it has a `runTrace`. */
export type MeteredEvm = EVM & { readonly meter: Meter; readonly runTrace: RunTrace | undefined }
/** Stands around the opcodes of a traced run. */
export type RunTrace = {
  /** Before the gas of an opcode with memory or state in its price, or before an opcode runs: each opcode once or twice. */
  seen(runState: RunState): void
  /** The gas handler refused: what happens next is the step of this opcode, and the end of the frame. */
  gasFailed(runState: RunState, error: unknown): void
  /** The price is known; the opcode may not be worth it. */
  priced(runState: RunState, cost: bigint): void
  /** Before an opcode with a gas handler runs. */
  running(runState: RunState): void
  /** Around what calls, creates or destroys. */
  aroundCall(runState: RunState, run: () => void | Promise<void>): Promise<void>
  aroundLog(runState: RunState, run: () => void): void
  /** After an opcode that ended nothing: code that is at its end stops. */
  ran(runState: RunState): void
}

export function makeKernel(rules: EvmRules): Kernel {
  const common = new CachingCommon({
    chain: { ...Mainnet, chainId: rules.chainId.toString() },
    hardfork: hardforkOf(rules.spec),
    params: paramsEVM,
    customCrypto: { keccak256 },
  })
  const precompiles = precompiledContracts(rules)
  const opcodes = meteredOpcodes(common)
  let traced: OpcodeMap | undefined
  return {
    rules,
    common,
    opcodes,
    get tracedOpcodes() {
      // Opcodes of their own: what is kept of analysed code refers to them.
      traced ??= tracedOpcodes(meteredOpcodes(common))
      return traced
    },
    precompiles,
    alwaysWarm: warmKeys(precompiles),
  }
}

export const addressesOf = (kernel: Kernel): Bytes[] => [...kernel.alwaysWarm].map(fromLatin1)

/** The same rules with precompiled contracts elsewhere. */
export function movePrecompiles(kernel: Kernel, moved: readonly MovedPrecompile[]): Kernel {
  const precompiles = new Map(kernel.precompiles)
  for (const { from } of moved) precompiles.delete(hexOf(from))
  for (const { from, to } of moved) {
    const contract = kernel.precompiles.get(hexOf(from))
    if (contract !== undefined && to !== undefined) precompiles.set(hexOf(to), contract)
  }
  const { rules, common, opcodes } = kernel
  return {
    rules,
    common,
    opcodes,
    get tracedOpcodes() {
      return kernel.tracedOpcodes
    },
    precompiles,
    // What is warm from the start does not move along (go-ethereum: Prepare).
    alwaysWarm: kernel.alwaysWarm,
  }
}

const hexOf = (address: Bytes) => Buffer.from(address).toString('hex')
const warmKeys = (precompiles: ReadonlyMap<string, unknown>) =>
  new Set([...precompiles.keys()].map((hex) => Buffer.from(hex, 'hex').toString('latin1')))

/** The table of forks names its EVM rules as this package does. */
function hardforkOf(spec: string): string {
  const found = Mainnet.hardforks.find(({ name }) => name === spec)
  if (found === undefined) throw new RangeError(`no EVM rules named ${JSON.stringify(spec)}`)
  return found.name
}

/**
 * The package looks each parameter up as a number and makes a bigint of it at every opcode. The fields are declared only: the
 * constructor of the package fills the caches before a field of ours would begin.
 */
class CachingCommon extends Common {
  declare private params: Map<string, bigint>
  declare private active: Map<number, boolean>
  declare private forks: Map<string, boolean>

  override param(name: string): bigint {
    let value = this.params.get(name)
    if (value === undefined) {
      value = super.param(name)
      this.params.set(name, value)
    }
    return value
  }
  override isActivatedEIP(eip: number): boolean {
    let value = this.active.get(eip)
    if (value === undefined) {
      value = super.isActivatedEIP(eip)
      this.active.set(eip, value)
    }
    return value
  }
  override gteHardfork(hardfork: string): boolean {
    let value = this.forks.get(hardfork)
    if (value === undefined) {
      value = super.gteHardfork(hardfork)
      this.forks.set(hardfork, value)
    }
    return value
  }
  /** Every EVM that is made calls this; nothing new changes nothing. */
  override updateParams(params: ParamsDict): void {
    if (Object.keys(params).length > 0) super.updateParams(params)
  }
  protected override _buildParamsCache(): void {
    this.params = new Map()
    super._buildParamsCache()
  }
  protected override _buildActivatedEIPsCache(): void {
    this.active = new Map()
    this.forks = new Map()
    super._buildActivatedEIPsCache()
  }
}

function meteredOpcodes(common: Common): OpcodeMap {
  const jumpTables = new WeakMap<Bytes, JumpTable>()
  const { opcodeMap } = getOpcodesForHF(common)
  return opcodeMap.map((entry, code) => {
    const { opcodeInfo, opHandler } = entry
    const { dynamicGas } = opcodeInfo
    return {
      // The package has one INVALID for all that are none; what halts at one, or shows it, tells which.
      opcodeInfo: opcodeInfo.code === code ? opcodeInfo : Object.assign({}, opcodeInfo, { code }),
      gasHandler: dynamicGas ? checkedGas(code, opcodeMap, common) : entry.gasHandler,
      opHandler: metered(burning(code, checkedRun(code, opHandler)), {
        growsMemory: dynamicGas,
        jumpTables,
      }),
    }
  })
}

/** What go-ethereum finds only when the opcode runs. */
function checkedRun(code: number, handler: Handler): Handler {
  if (code === RETURNDATACOPY)
    return (runState, common) => {
      const [, offset, length] = runState.stack.peek(3)
      if (offset! + length! > BigInt(runState.returnBytes.length))
        throw new Fault(RETURN_DATA_BOUNDS)
      return handler(runState, common)
    }
  if (code < LOG0 || code > LOG4) return handler
  return (runState, common) => {
    if (runState.env.isStatic) throw new EVMError(EVMError.errorMessages.STATIC_STATE_CHANGE)
    return handler(runState, common)
  }
}

function tracedOpcodes(opcodes: OpcodeMap): OpcodeMap {
  return opcodes.map((entry, code) => {
    const { opHandler, gasHandler, opcodeInfo } = entry
    if (opcodeInfo.isInvalid) return entry
    const traced = tracedHandler(code, opHandler)
    return {
      ...entry,
      opHandler(runState, common) {
        if (opcodeInfo.dynamicGas) traceOf(runState).running(runState)
        const ran = () => traceOf(runState).ran(runState)
        const running = traced(runState, common)
        return running === undefined ? ran() : running.then(ran)
      },
      async gasHandler(runState, gas, common) {
        const trace = traceOf(runState)
        trace.seen(runState)
        try {
          const cost = await gasHandler(runState, gas, common)
          trace.priced(runState, cost)
          return cost
        } catch (error) {
          trace.gasFailed(runState, error)
          throw error
        }
      },
    }
  })
}

function tracedHandler(code: number, handler: Handler): Handler {
  if (CALLS.has(code))
    return (runState, common) =>
      traceOf(runState).aroundCall(runState, () => handler(runState, common))
  if (code >= LOG0 && code <= LOG4)
    return (runState, common) =>
      traceOf(runState).aroundLog(runState, () => void handler(runState, common))
  return (runState, common) => {
    traceOf(runState).seen(runState)
    return handler(runState, common)
  }
}

const traceOf = (runState: RunState): RunTrace =>
  (runState.interpreter._evm as MeteredEvm).runTrace!

/** CREATE, CALL, CALLCODE, DELEGATECALL, CREATE2, STATICCALL; and SELFDESTRUCT. */
const MESSAGES: ReadonlySet<number> = new Set([0xf0, 0xf1, 0xf2, 0xf4, 0xf5, 0xfa])
const CALLS: ReadonlySet<number> = new Set([...MESSAGES, 0xff])

/** What fuel counts: without them no code runs for long. */
function burning(code: number, handler: Handler): Handler {
  if (MESSAGES.has(code))
    return (runState, common) => {
      meterOf(runState).burn()
      return handler(runState, common)
    }
  if (code !== JUMP && code !== JUMPI) return handler
  return (runState, common) => {
    const next = runState.programCounter
    const running = handler(runState, common)
    if (runState.programCounter < next) meterOf(runState).burn()
    return running
  }
}

const meterOf = (runState: RunState): Meter => (runState.interpreter._evm as MeteredEvm).meter

const JUMP = 0x56
const JUMPI = 0x57

function metered(
  handler: Handler,
  options: { readonly growsMemory: boolean; readonly jumpTables: WeakMap<Bytes, JumpTable> },
): Handler {
  const { growsMemory, jumpTables } = options
  return (runState: RunState, common: Common) => {
    const { meter } = runState.interpreter._evm as MeteredEvm
    meter.step()
    if (runState.shouldDoJumpAnalysis) keepJumpTable(runState, jumpTables)
    if (growsMemory && meter.maxWords !== undefined && runState.memoryWordCount > meter.maxWords)
      throw new Stopped('memory')
    // The package pops what is there before it finds the rest missing; the size must still be told.
    if (stackFault(runState.opCode, runState.stack.length) !== undefined)
      throw new EVMError(EVMError.errorMessages.STACK_UNDERFLOW)
    return handler(runState, common)
  }
}

/** The package analyses code anew in every frame; the first opcode of a frame is never a jump that works. */
function keepJumpTable(runState: RunState, jumpTables: WeakMap<Bytes, JumpTable>): void {
  const { interpreter } = runState
  if (Object.hasOwn(interpreter, '_getValidJumpDestinations')) return
  const analyse = interpreter._getValidJumpDestinations
  interpreter._getValidJumpDestinations = (code: Bytes) => {
    let table = jumpTables.get(code)
    if (table === undefined) {
      table = analyse.call(interpreter, code)
      jumpTables.set(code, table)
    }
    return table
  }
}
