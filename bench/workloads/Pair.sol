// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

interface IToken {
    function balanceOf(address) external view returns (uint256);
    function transfer(address, uint256) external returns (bool);
    function transferFrom(address, address, uint256) external returns (bool);
}

/// A pair of tokens whose product may only grow, 0.3 % of what comes in left in it.
contract Pair {
    address public token0; // slot 0
    address public token1; // slot 1
    uint112 private reserve0; // slot 2
    uint112 private reserve1;
    uint32 private updated;
    uint256 public cumulative0; // slot 3
    uint256 public cumulative1; // slot 4
    uint256 private locked; // slot 5

    event Swap(address indexed sender, uint256 in0, uint256 in1, uint256 out0, uint256 out1, address indexed to);
    event Sync(uint112 reserve0, uint112 reserve1);

    error Locked();
    error NoLiquidity();
    error Product();

    function getReserves() public view returns (uint112, uint112, uint32) {
        return (reserve0, reserve1, updated);
    }

    function swap(uint256 out0, uint256 out1, address to) external {
        if (locked != 0) revert Locked();
        locked = 1;
        (uint112 before0, uint112 before1,) = getReserves();
        if (out0 >= before0 || out1 >= before1) revert NoLiquidity();
        if (out0 > 0) IToken(token0).transfer(to, out0);
        if (out1 > 0) IToken(token1).transfer(to, out1);
        uint256 balance0 = IToken(token0).balanceOf(address(this));
        uint256 balance1 = IToken(token1).balanceOf(address(this));
        uint256 in0 = balance0 > before0 - out0 ? balance0 - (before0 - out0) : 0;
        uint256 in1 = balance1 > before1 - out1 ? balance1 - (before1 - out1) : 0;
        if ((balance0 * 1000 - in0 * 3) * (balance1 * 1000 - in1 * 3) < uint256(before0) * before1 * 1_000_000) {
            revert Product();
        }
        update(balance0, balance1, before0, before1);
        emit Swap(msg.sender, in0, in1, out0, out1, to);
        locked = 0;
    }

    function update(uint256 balance0, uint256 balance1, uint112 before0, uint112 before1) private {
        uint32 time = uint32(block.timestamp);
        unchecked {
            uint32 elapsed = time - updated;
            if (elapsed > 0 && before0 != 0 && before1 != 0) {
                cumulative0 += ((uint256(before1) << 112) / before0) * elapsed;
                cumulative1 += ((uint256(before0) << 112) / before1) * elapsed;
            }
        }
        (reserve0, reserve1, updated) = (uint112(balance0), uint112(balance1), time);
        emit Sync(uint112(balance0), uint112(balance1));
    }
}
