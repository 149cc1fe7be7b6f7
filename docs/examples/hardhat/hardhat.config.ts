import { defineConfig } from 'hardhat/config'

export default defineConfig({
  // Of the artifacts that stand here; `npx hardhat build` fetches this compiler.
  solidity: '0.8.30',
  networks: {
    flashnode: {
      type: 'http',
      chainType: 'op',
      // The endpoint whose `pending` is the state after the last flashblock.
      url: process.env['RPC_URL'] ?? 'http://127.0.0.1:8545/flashblocks',
    },
  },
})
