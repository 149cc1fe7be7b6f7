/**
 * Point evaluation (EIP-4844): that a polynomial committed to has the value y at z. Of the trusted setup only [τ]G2 is needed, and the
 * pairing of @ethereumjs/evm does the rest.
 */
import { NobleBLS } from '@ethereumjs/evm'
import type { Bytes } from '../../primitives/bytes.ts'
import { hexToBytes } from '../../primitives/hex.ts'
import { bigintToBytes, bytesToBigint, concatBytes } from '../../primitives/words.ts'

/**
 * e(C − y·G1 + z·π, G2) · e(−π, [τ]G2) = 1. Arguments in hex with 0x: two compressed points of G1, two scalars.
 * @throws {Error} that begins with C_KZG_BADARGS, when one of them is none.
 */
export function verifyKzgProof(commitment: string, z: string, y: string, proof: string): boolean {
  const point = decompress(hexToBytes(commitment))
  const proofPoint = decompress(hexToBytes(proof))
  const minusY = (ORDER - scalar(y)) % ORDER
  const bls = new NobleBLS()
  const left = bls.msmG1(
    concatBytes(
      encodePoint(point),
      bigintToBytes(1n, 32),
      encodePoint(GENERATOR),
      bigintToBytes(minusY, 32),
      encodePoint(proofPoint),
      bigintToBytes(scalar(z), 32),
    ),
  )
  const minusProof =
    proofPoint === INFINITY ? INFINITY : { x: proofPoint.x, y: FIELD - proofPoint.y }
  const result = bls.pairingCheck(concatBytes(left, G2, encodePoint(minusProof), TAU_G2))
  return result[31] === 1
}

type Point = { readonly x: bigint; readonly y: bigint }

/** Of BLS12-381. */
const FIELD =
  0x1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaabn
const ORDER = 0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001n
const INFINITY: Point = { x: 0n, y: 0n }
const GENERATOR: Point = {
  x: 0x17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bbn,
  y: 0x08b3f481e3aaa0f1a09e30ed741d8ae4fcf5e095d5d00af600db18cb2c04b3edd03cc744a2888ae40caa232946c5e7e1n,
}

/** Coordinates c0, c1 of x and of y, as EIP-2537 lays a point of G2 out. */
function encodeG2(...coordinates: readonly bigint[]): Bytes {
  return concatBytes(...coordinates.map((each) => bigintToBytes(each, 64)))
}
const G2 = encodeG2(
  0x024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8n,
  0x13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7en,
  0x0ce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801n,
  0x0606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79ben,
)
/** The ceremony's: g2_monomial[1] of trusted_setup.json. */
const TAU_G2 = encodeG2(
  0x185cbfee53492714734429b7b38608e23926c911cceceac9a36851477ba4c60b087041de621000edc98edada20c1def2n,
  0x15bfd7dd8cdeb128843bc287230af38926187075cbfbefa81009a2ce615ac53d2914e5870cb452d2afaaab24f3499f72n,
  0x014353bdb96b626dd7d5ee8599d1fca2131569490e28de18e82451a496a9c9794ce26d105941f383ee689bfbbb832a99n,
  0x1666c54b0a32529503432fcae0181b4bef79de09fc63671fda5ed1ba9bfa07899495346f3d7ac9cd23048ef30d0a154fn,
)

const encodePoint = ({ x, y }: Point): Bytes =>
  concatBytes(bigintToBytes(x, 64), bigintToBytes(y, 64))

function scalar(hex: string): bigint {
  const value = BigInt(hex)
  if (value >= ORDER) throw badArguments(`scalar ${hex} is not below the order`)
  return value
}

/** 48 bytes: three flags (compressed, infinity, larger y) and x. That it is in the subgroup is checked by the sum. */
function decompress(bytes: Bytes): Point {
  const first = bytes[0]!
  const isLarger = (first & 0x20) !== 0
  const x = bytesToBigint(bytes) & ((1n << 381n) - 1n)
  if ((first & 0x80) === 0) throw badArguments('point is not compressed')
  if ((first & 0x40) !== 0) {
    if (isLarger || x !== 0n) throw badArguments('point at infinity with coordinates')
    return INFINITY
  }
  if (x >= FIELD) throw badArguments('x is not in the field')
  const square = (x * x * x + 4n) % FIELD
  const root = power(square, (FIELD + 1n) / 4n)
  if ((root * root) % FIELD !== square) throw badArguments('point is not on the curve')
  return { x, y: root > FIELD / 2n === isLarger ? root : FIELD - root }
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (const bit of exponent.toString(2)) {
    result = (result * result) % FIELD
    if (bit === '1') result = (result * base) % FIELD
  }
  return result
}

const badArguments = (why: string) => new Error(`C_KZG_BADARGS: ${why}`)
