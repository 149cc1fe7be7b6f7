// SPDX-License-Identifier: MIT
pragma solidity ^0.8.0;

contract Counter {
    uint256 public count;

    event Counted(uint256 count);

    function increment() external {
        emit Counted(++count);
    }
}
