// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// The arithmetic of a pool whose liquidity lies in ranges of the price: roots of 96 fractional bits, products of 512 bits, a bitmap
/// of the bounds that are used.
contract Ranges {
    uint160 public root; // slot 0
    uint128 public liquidity; // slot 1
    mapping(int16 => uint256) public bitmap; // slot 2
    mapping(int24 => int128) public net; // slot 3

    error NoProgress();

    /// What comes out for `amount` of the first token, over `steps` ranges at most.
    function quote(uint256 amount, uint256 steps) external view returns (uint256 out, uint160 price) {
        price = root;
        uint256 held = liquidity;
        int24 bound = 0;
        for (uint256 i = 0; i < steps && amount > 0; i++) {
            (int24 next, bool isUsed) = nextBound(bound);
            uint160 target = uint160(fullMulDiv(price, 9_990, 10_000));
            uint256 needed = amount0(target, price, held);
            uint256 charged = fullMulDiv(amount, 1_000_000 - 3_000, 1_000_000);
            uint160 reached = charged >= needed ? target : nextRoot(price, held, charged);
            out += fullMulDiv(held, price - reached, 1 << 96);
            amount -= charged >= needed ? fullMulDiv(needed, 1_000_000, 1_000_000 - 3_000) : amount;
            if (reached == price) revert NoProgress();
            price = reached;
            if (isUsed) held = uint256(int256(held) + net[next]);
            bound = next - 1;
        }
    }

    function nextBound(int24 bound) private view returns (int24, bool) {
        unchecked {
            int16 word = int16(bound >> 8);
            uint8 bit = uint8(uint24(bound));
            uint256 masked = bitmap[word] & ((1 << bit) - 1 + (1 << bit));
            if (masked == 0) return (bound - int24(uint24(bit)), false);
            return (bound - int24(uint24(bit - highestBit(masked))), true);
        }
    }

    function highestBit(uint256 x) private pure returns (uint8 at) {
        unchecked {
            for (uint8 size = 128; size > 0; size >>= 1) {
                if (x >> size > 0) {
                    x >>= size;
                    at += size;
                }
            }
        }
    }

    function amount0(uint160 low, uint160 high, uint256 held) private pure returns (uint256) {
        return fullMulDiv(held << 96, high - low, high) / low + 1;
    }

    function nextRoot(uint160 price, uint256 held, uint256 amount) private pure returns (uint160) {
        uint256 scaled = held << 96;
        return uint160(fullMulDiv(scaled, price, scaled + amount * price) + 1);
    }

    /// a × b / c with all 512 bits of the product, by Remco Bloemen's method.
    function fullMulDiv(uint256 a, uint256 b, uint256 c) private pure returns (uint256 result) {
        unchecked {
            uint256 low = a * b;
            uint256 mod = mulmod(a, b, type(uint256).max);
            uint256 high = mod - low - (mod < low ? 1 : 0);
            if (high == 0) return low / c;
            require(c > high);
            uint256 rest = mulmod(a, b, c);
            if (rest > low) high--;
            low -= rest;
            uint256 power = c & (~c + 1);
            c /= power;
            low = low / power | high * ((~power + 1) / power + 1);
            uint256 inverse = 3 * c ^ 2;
            for (uint256 i = 0; i < 6; i++) {
                inverse *= 2 - c * inverse;
            }
            return low * inverse;
        }
    }
}
