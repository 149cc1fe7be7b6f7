// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

interface IL1Block {
    function basefee() external view returns (uint256);
    function blobBaseFee() external view returns (uint256);
    function baseFeeScalar() external view returns (uint32);
    function blobBaseFeeScalar() external view returns (uint32);
    function operatorFeeScalar() external view returns (uint32);
    function operatorFeeConstant() external view returns (uint64);
}

/// What a transaction will cost beside gas. The chain has every fork from its first block on: the flags are set there.
contract GasPriceOracle {
    string public constant version = "1.6.0";
    uint256 public constant DECIMALS = 6;
    IL1Block private constant L1_BLOCK = IL1Block(0x4200000000000000000000000000000000000015);
    /// A signature, which the unsigned transaction that is asked about does not have.
    uint256 private constant SIGNATURE_BYTES = 68;

    bool public isEcotone; // slot 0, from its low end
    bool public isFjord;
    bool public isIsthmus;
    bool public isJovian;

    /// Wei for an unsigned transaction in its RLP form.
    function getL1Fee(bytes memory data) external view returns (uint256) {
        return l1Fee(compressedLength(data) + SIGNATURE_BYTES);
    }

    /// Wei at most for any unsigned transaction of that length: what does not compress grows by a byte in 255, and 16.
    function getL1FeeUpperBound(uint256 unsignedSize) external view returns (uint256) {
        uint256 size = unsignedSize + SIGNATURE_BYTES;
        return l1Fee(size + size / 255 + 16);
    }

    function getL1GasUsed(bytes memory data) external pure returns (uint256) {
        return estimatedSize(compressedLength(data) + SIGNATURE_BYTES) * 16 / 10 ** DECIMALS;
    }

    function getOperatorFee(uint256 gasUsed) external view returns (uint256) {
        uint256 scaled = gasUsed * L1_BLOCK.operatorFeeScalar();
        return (isJovian ? scaled * 100 : scaled / 10 ** DECIMALS) + L1_BLOCK.operatorFeeConstant();
    }

    function gasPrice() external view returns (uint256) {
        return block.basefee;
    }

    function baseFee() external view returns (uint256) {
        return block.basefee;
    }

    function l1BaseFee() external view returns (uint256) {
        return L1_BLOCK.basefee();
    }

    function blobBaseFee() external view returns (uint256) {
        return L1_BLOCK.blobBaseFee();
    }

    function baseFeeScalar() external view returns (uint32) {
        return L1_BLOCK.baseFeeScalar();
    }

    function blobBaseFeeScalar() external view returns (uint32) {
        return L1_BLOCK.blobBaseFeeScalar();
    }

    function decimals() external pure returns (uint256) {
        return DECIMALS;
    }

    function overhead() external pure returns (uint256) {
        revert("GasPriceOracle: overhead() is deprecated");
    }

    function scalar() external pure returns (uint256) {
        revert("GasPriceOracle: scalar() is deprecated");
    }

    function l1Fee(uint256 compressed) private view returns (uint256) {
        uint256 perByte = L1_BLOCK.baseFeeScalar() * 16 * L1_BLOCK.basefee()
            + L1_BLOCK.blobBaseFeeScalar() * L1_BLOCK.blobBaseFee();
        return estimatedSize(compressed) * perByte / 10 ** (2 * DECIMALS);
    }

    /// Bytes × 10^6 in a batch of many transactions, from the length that one has by itself (Fjord's regression).
    function estimatedSize(uint256 compressed) private pure returns (uint256) {
        int256 estimate = 836_500 * int256(compressed) - 42_585_600;
        return estimate < 100_000_000 ? 100_000_000 : uint256(estimate);
    }

    /// Length of FastLZ level 1 output; it is a figure of consensus, to the byte.
    function compressedLength(bytes memory data) private pure returns (uint256 length) {
        unchecked {
            uint256 limit = data.length < 13 ? 0 : data.length - 13;
            // 8192 places of four bytes, and room for the last word.
            bytes memory seen = new bytes(8192 * 4 + 32);
            uint256 anchor = 0;
            uint256 at = 2;
            while (at < limit) {
                (bool isFound, uint256 place, uint256 earlier) = nextMatch(data, seen, at, limit);
                if (!isFound) break;
                at = place;
                if (at > anchor) length += literalLength(at - anchor);
                uint256 matched = matchLength(data, earlier + 3, at + 3, limit + 9);
                length += copyLength(matched);
                at += matched;
                // Of a match only the two places behind it enter the table.
                exchange(seen, threeAt(data, at), at);
                at++;
                exchange(seen, threeAt(data, at), at);
                at++;
                anchor = at;
            }
            length += literalLength(data.length - anchor);
        }
    }

    /// The first place whose three bytes were seen within the window.
    function nextMatch(bytes memory data, bytes memory seen, uint256 at, uint256 limit)
        private
        pure
        returns (bool, uint256, uint256)
    {
        unchecked {
            for (; at < limit; at++) {
                uint256 three = threeAt(data, at);
                uint256 earlier = exchange(seen, three, at);
                // The compressor steps on before it looks at what it found: a match at the last place is lost.
                if (at - earlier <= 8191 && three == threeAt(data, earlier)) return (at + 1 < limit, at, earlier);
            }
            return (false, 0, 0);
        }
    }

    /// As the compressor counts: equal bytes, and the first that is not.
    function matchLength(bytes memory data, uint256 earlier, uint256 at, uint256 end)
        private
        pure
        returns (uint256 length)
    {
        unchecked {
            uint256 most = end - at;
            while (length < most && byteAt(data, earlier + length) == byteAt(data, at + length)) length++;
            if (length < most) length++;
        }
    }

    function literalLength(uint256 count) private pure returns (uint256) {
        unchecked {
            uint256 rest = count % 32;
            return count / 32 * 33 + (rest == 0 ? 0 : rest + 1);
        }
    }

    function copyLength(uint256 matched) private pure returns (uint256) {
        unchecked {
            return (matched - 1) / 262 * 3 + ((matched - 1) % 262 >= 6 ? 3 : 2);
        }
    }

    /// Writes where these three bytes were seen, and gives where they were seen before.
    function exchange(bytes memory seen, uint256 three, uint256 at) private pure returns (uint256 before) {
        assembly {
            let slot := shr(19, and(mul(0x9e3779b9, three), 0xffffffff))
            let place := add(add(seen, 32), shl(2, slot))
            let word := mload(place)
            before := shr(224, word)
            mstore(place, or(shr(32, shl(32, word)), shl(224, at)))
        }
    }

    function threeAt(bytes memory data, uint256 at) private pure returns (uint256 three) {
        assembly {
            let word := mload(add(add(data, 32), at))
            three := or(or(byte(0, word), shl(8, byte(1, word))), shl(16, byte(2, word)))
        }
    }

    function byteAt(bytes memory data, uint256 at) private pure returns (uint256 value) {
        assembly {
            value := byte(0, mload(add(add(data, 32), at)))
        }
    }
}
