// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// A proxy whose implementation stands in the slot that ERC-1967 names.
contract Forwarder {
    bytes32 private constant SLOT = 0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc;

    fallback() external payable {
        assembly {
            calldatacopy(0, 0, calldatasize())
            let isDone := delegatecall(gas(), sload(SLOT), 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if isDone { return(0, returndatasize()) }
            revert(0, returndatasize())
        }
    }
}
