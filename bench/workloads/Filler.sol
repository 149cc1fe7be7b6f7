// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

interface IToken {
    function transfer(address, uint256) external returns (bool);
}

/// Gives holder number n, whose address is n above the first one's, n + 1 tokens of its own.
contract Filler {
    function fill(IToken token, uint256 holders, uint256 first, uint256 count) external {
        for (uint256 n = first; n < first + count; n++) {
            token.transfer(address(uint160(holders + n)), (n + 1) * 1e18);
        }
    }
}
