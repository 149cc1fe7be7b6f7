// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// What stands at the address of a predeployed contract: runs the code of its implementation on its own storage (EIP-1967). Only the
/// admin, and an eth_call without a sender, see the proxy's own functions; for everybody else they are the implementation's.
contract Proxy {
    bytes32 private constant IMPLEMENTATION = 0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc;
    bytes32 private constant ADMIN = 0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103;

    event Upgraded(address indexed implementation);
    event AdminChanged(address previousAdmin, address newAdmin);

    modifier orDelegate() {
        if (msg.sender == read(ADMIN) || msg.sender == address(0)) _;
        else delegate();
    }

    receive() external payable {
        delegate();
    }

    fallback() external payable {
        delegate();
    }

    function upgradeTo(address next) external orDelegate {
        upgrade(next);
    }

    function upgradeToAndCall(address next, bytes calldata data) external payable orDelegate returns (bytes memory) {
        upgrade(next);
        (bool isDone, bytes memory result) = next.delegatecall(data);
        require(isDone, "Proxy: delegatecall to new implementation contract failed");
        return result;
    }

    function changeAdmin(address next) external orDelegate {
        emit AdminChanged(read(ADMIN), next);
        write(ADMIN, next);
    }

    function admin() external orDelegate returns (address) {
        return read(ADMIN);
    }

    function implementation() external orDelegate returns (address) {
        return read(IMPLEMENTATION);
    }

    function upgrade(address next) private {
        write(IMPLEMENTATION, next);
        emit Upgraded(next);
    }

    function delegate() private {
        address target = read(IMPLEMENTATION);
        require(target != address(0), "Proxy: implementation not initialized");
        assembly {
            calldatacopy(0, 0, calldatasize())
            let isDone := delegatecall(gas(), target, 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if iszero(isDone) { revert(0, returndatasize()) }
            return(0, returndatasize())
        }
    }

    function read(bytes32 slot) private view returns (address value) {
        assembly {
            value := sload(slot)
        }
    }

    function write(bytes32 slot, address value) private {
        assembly {
            sstore(slot, value)
        }
    }
}
