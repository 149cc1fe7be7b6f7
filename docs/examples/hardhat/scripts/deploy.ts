/** Deploys the counter and calls it; looks at each receipt when a flashblock has it, and when its block is sealed. */
import assert from 'node:assert/strict'
import { artifacts, network } from 'hardhat'

type Receipt = { status: string; contractAddress: string | null; blockNumber: string } | null

const { provider } = await network.connect()
const request = <Result>(method: string, ...params: unknown[]) =>
  provider.request({ method, params }) as Promise<Result>

const { bytecode } = await artifacts.readArtifact('Counter')
const [from] = await request<string[]>('eth_accounts')

/** Paused, the chain shows what lies between a flashblock and its block. */
async function preconfirmed(transaction: object) {
  await request('dev_pause')
  const hash = await request<string>('eth_sendTransaction', { from, ...transaction })
  await request('dev_step')
  await request('dev_step')
  const receipt = await request<Receipt>('eth_getTransactionReceipt', hash)
  assert.equal(receipt?.status, '0x1')
  const sealed = await request<{ number: string }>('eth_getBlockByNumber', 'latest', false)
  assert.equal(BigInt(receipt.blockNumber), BigInt(sealed.number) + 1n)
  const { number } = await request<{ number: string }>('dev_seal')
  assert.equal(number, receipt.blockNumber)
  await request('dev_resume')
  return receipt
}

const { contractAddress } = await preconfirmed({ data: bytecode })
console.log(`preconfirmed: the counter is at ${contractAddress}`)
// The first four bytes of keccak256("increment()") and of keccak256("count()").
await preconfirmed({ to: contractAddress, data: '0xd09de08a' })
const count = await request<string>(
  'eth_call',
  { to: contractAddress, data: '0x06661abd' },
  'latest',
)
assert.equal(BigInt(count), 1n)
console.log(`it counts: ${BigInt(count)}`)
