// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// Loops without state.
contract Compute {
    function checkedLoop(uint256 n) external pure returns (uint256 sum) {
        uint256 a = 1;
        uint256 b = 1;
        for (uint256 i = 0; i < n; i++) {
            uint256 c = a + b;
            a = b % 1_000_003;
            b = c % 1_000_033;
            sum += (a * b) / (i + 1);
            if (sum > 1e30) sum -= 1e30;
        }
    }

    function hashLoop(uint256 n) external pure returns (bytes32 hash) {
        uint256[16] memory seen;
        for (uint256 i = 0; i < n; i++) {
            hash = keccak256(abi.encode(hash, i, seen[i & 15]));
            seen[(i + 7) & 15] = uint256(hash) >> 128;
        }
    }
}
