/**
 * This token is as small as possible: transfer(to, amount) for 68 bytes of input, the balance of
 * the first argument for less.
 */
import { concatHex, type Hex, numberToHex, pad } from 'viem'

const TRANSFER_TOPIC = 'ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
/**
 * More than 64 bytes of input jump to 0x11; the code before is RETURN(SLOAD(CALLDATALOAD(4))). Each
 * balance is in the slot of its address. At 0x11 the balances of the caller and of the receiver
 * change by the amount, unchecked. Then Transfer is logged.
 */
const RUNTIME: Hex = `0x36604010601157600435545f5260205ff35b60243580335403335580600435540160043555\
5f52600435337f${TRANSFER_TOPIC}60205fa360015f5260205ff3`
const size = (RUNTIME.length - 2) / 2
/** The init code is CODECOPY(0, 9, size), RETURN(0, size). */
export const TOKEN_CREATION: Hex = concatHex([`0x60${size.toString(16)}8060095f395ff3`, RUNTIME])

export const balanceOf = (holder: Hex): Hex => concatHex(['0x70a08231', pad(holder, { size: 32 })])
export const transferTo = (receiver: Hex, amount: bigint): Hex =>
  concatHex(['0xa9059cbb', pad(receiver, { size: 32 }), numberToHex(amount, { size: 32 })])
export const slotOf = (holder: Hex): Hex => pad(holder, { size: 32 })
