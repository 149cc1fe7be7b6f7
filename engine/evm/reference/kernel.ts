/**
 * State that the sessions of one rule set share: parameters, metered opcodes, precompiled
 * contracts, jump tables.
 */
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
  /** Metered opcodes that report to the EVM's `runTrace`; made at the first use. */
  readonly tracedOpcodes: OpcodeMap
  readonly precompiles: Map<string, PrecompileFunc>
  /** Addresses of the precompiled contracts as map keys. */
  readonly alwaysWarm: ReadonlySet<string>
}
/** An EVM with metered opcodes; `runTrace` is defined only with traced ones. */
export type MeteredEvm = EVM & { readonly meter: Meter; readonly runTrace: RunTrace | undefined }
/** Hooks around the opcodes of a traced run. */
export type RunTrace = {
  /**
   * Called before the gas handler of an opcode with dynamic gas, and before an opcode runs. Each
   * opcode is seen once or twice.
   */
  seen(runState: RunState): void
  /**
   * Called if the gas handler fails. The next events are this opcode's step and the end of the
   * frame.
   */
  gasFailed(runState: RunState, error: unknown): void
  /** Called when the price is known; the remaining gas may be lower. */
  priced(runState: RunState, cost: bigint): void
  /** Called before an opcode with a gas handler runs. */
  running(runState: RunState): void
  /** Wraps calls, creations and SELFDESTRUCT. */
  aroundCall(runState: RunState, run: () => void | Promise<void>): Promise<void>
  aroundLog(runState: RunState, run: () => void): void
  /** Called after an opcode that did not end the frame. At the end of the code the frame stops. */
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
      // Traced opcodes need their own metered ones, because cached jump tables belong to one set.
      traced ??= tracedOpcodes(meteredOpcodes(common))
      return traced
    },
    precompiles,
    alwaysWarm: warmKeys(precompiles),
  }
}

export const addressesOf = (kernel: Kernel): Bytes[] => [...kernel.alwaysWarm].map(fromLatin1)

/** Copies the kernel with precompiled contracts at other addresses. */
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
    // A moved contract is not warm at its new address (go-ethereum: Prepare).
    alwaysWarm: kernel.alwaysWarm,
  }
}

const hexOf = (address: Bytes) => Buffer.from(address).toString('hex')
const warmKeys = (precompiles: ReadonlyMap<string, unknown>) =>
  new Set([...precompiles.keys()].map((hex) => Buffer.from(hex, 'hex').toString('latin1')))

/** The fork table and this package use equal names for EVM rules. */
function hardforkOf(spec: string): string {
  const found = Mainnet.hardforks.find(({ name }) => name === spec)
  if (found === undefined) throw new RangeError(`no EVM rules named ${JSON.stringify(spec)}`)
  return found.name
}

/**
 * Caches parameters, because the package looks up a number and makes a bigint at every opcode. The
 * fields are only declared, because the package's constructor fills them before an initializer
 * would run.
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
  /** Every new EVM calls this, mostly with nothing to change. */
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
      // The package has one INVALID entry for all undefined opcodes. Halts and traces need the
      // actual code.
      opcodeInfo: opcodeInfo.code === code ? opcodeInfo : Object.assign({}, opcodeInfo, { code }),
      gasHandler: dynamicGas ? checkedGas(code, opcodeMap, common) : entry.gasHandler,
      opHandler: metered(burning(code, checkedRun(code, opHandler)), {
        growsMemory: dynamicGas,
        jumpTables,
      }),
    }
  })
}

/** Adds the checks that go-ethereum makes when the opcode runs. */
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

const MESSAGES: ReadonlySet<number> = new Set([0xf0, 0xf1, 0xf2, 0xf4, 0xf5, 0xfa])
const CALLS: ReadonlySet<number> = new Set([...MESSAGES, 0xff])

/**
 * Counts calls, creations and backward jumps against the fuel. Without these no code runs for long.
 */
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
    if (runState.shouldDoJumpAnalysis) cacheJumpTable(runState, jumpTables)
    if (growsMemory && meter.maxWords !== undefined && runState.memoryWordCount > meter.maxWords)
      throw new Stopped('memory')
    // The package pops operands before it finds the stack too short. The halt reason needs the
    // original size.
    if (stackFault(runState.opCode, runState.stack.length) !== undefined)
      throw new EVMError(EVMError.errorMessages.STACK_UNDERFLOW)
    return handler(runState, common)
  }
}

/**
 * Caches jump tables, because the package analyses code again in every frame. The first opcode of a
 * frame is never a valid jump.
 */
function cacheJumpTable(runState: RunState, jumpTables: WeakMap<Bytes, JumpTable>): void {
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
