/**
 * Requests of an Ethereum block to its consensus layer (EIP-7685): deposits, withdrawals,
 * consolidations.
 */
import { createHash } from 'node:crypto'
import type { Session } from '../../evm/engine.ts'
import { type Bytes, NO_BYTES } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import type { Log } from '../../primitives/receipt.ts'
import { bytesToBigint, concatBytes, equalBytes } from '../../primitives/words.ts'
import { endedOf, systemMessage } from '../transaction/system-call.ts'

/** The block is invalid: a system contract is missing or failed, or a deposit log is malformed. */
export class RequestsError extends Error {
  override name = 'RequestsError'
}

/** System contracts of EIP-7002 and EIP-7251, in the order of their request types. */
export const REQUEST_QUEUES = [
  {
    type: 1,
    name: 'WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS',
    contract: hexToBytes('0x00000961ef480eb55e80d19ad83579a64c007002'),
  },
  {
    type: 2,
    name: 'CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS',
    contract: hexToBytes('0x0000bbddc7ce488642fb579f8b00f3a590007251'),
  },
] as const

/**
 * Runs the system contracts after the last transaction.
 * @returns the header's requestsHash
 * @throws {RequestsError} {MissingError} {ViewError}
 */
export async function makeRequests(
  session: Session,
  logs: readonly Log[],
  depositContract: Bytes,
): Promise<Bytes> {
  const deposits = logs.filter(
    ({ address, topics }) =>
      equalBytes(address, depositContract) &&
      topics[0] !== undefined &&
      equalBytes(topics[0], DEPOSIT_EVENT),
  )
  const requests = [concatBytes(Uint8Array.of(0), ...deposits.map(({ data }) => depositOf(data)))]
  for (const { type, contract } of REQUEST_QUEUES)
    requests.push(concatBytes(Uint8Array.of(type), await dequeue(session, contract)))
  const all = createHash('sha256')
  // A type without requests is left out.
  for (const request of requests) if (request.length > 1) all.update(sha256(request))
  return Uint8Array.from(all.digest())
}

const sha256 = (bytes: Bytes): Bytes => Uint8Array.from(createHash('sha256').update(bytes).digest())

async function dequeue(session: Session, contract: Bytes): Promise<Bytes> {
  const name = `0x${Buffer.from(contract).toString('hex')}`
  if (session.code(contract).length === 0)
    throw new RequestsError(`no code at the system contract ${name}`)
  session.startTransaction()
  const outcome = endedOf(await session.run(systemMessage(contract, NO_BYTES)))
  if (outcome.status !== 'success') throw new RequestsError(`the system contract ${name} failed`)
  session.endTransaction()
  return outcome.output
}

/** DepositEvent(bytes,bytes,bytes,bytes,bytes). */
const DEPOSIT_EVENT = hexToBytes(
  '0x649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5',
)
/**
 * ABI offset and length of public key, withdrawal credentials, amount, signature and index
 * (EIP-6110).
 */
const DEPOSIT_FIELDS = [
  [160, 48],
  [256, 32],
  [320, 8],
  [384, 96],
  [512, 8],
] as const

/**
 * Decodes a deposit to its 192 bytes.
 * @throws {RequestsError} if the log has another layout than the deposit contract's
 */
function depositOf(data: Bytes): Bytes {
  if (data.length !== 576) throw new RequestsError(`a deposit log of ${data.length} bytes`)
  const word = (at: number) => bytesToBigint(data.subarray(at, at + 32))
  const fields = DEPOSIT_FIELDS.map(([offset, length], index) => {
    if (word(index * 32) !== BigInt(offset) || word(offset) !== BigInt(length))
      throw new RequestsError('a deposit log that the deposit contract does not make')
    return data.subarray(offset + 32, offset + 32 + length)
  })
  return concatBytes(...fields)
}
