/** What the host may call. */
export { keccak256 } from './keccak'
