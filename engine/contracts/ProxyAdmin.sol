// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

interface IProxy {
    function implementation() external view returns (address);
    function admin() external view returns (address);
    function changeAdmin(address next) external;
    function upgradeTo(address next) external;
    function upgradeToAndCall(address next, bytes calldata data) external payable returns (bytes memory);
}

/// Admin of the proxies of the predeployed contracts. Its owner, the first of the funded accounts, upgrades them.
contract ProxyAdmin {
    address public owner; // slot 0

    event OwnershipTransferred(address indexed previousOwner, address indexed newOwner);

    modifier onlyOwner() {
        require(msg.sender == owner, "Ownable: caller is not the owner");
        _;
    }

    function transferOwnership(address next) external onlyOwner {
        require(next != address(0), "Ownable: new owner is the zero address");
        own(next);
    }

    function renounceOwnership() external onlyOwner {
        own(address(0));
    }

    function getProxyImplementation(address proxy) external view returns (address) {
        return IProxy(proxy).implementation();
    }

    function getProxyAdmin(address payable proxy) external view returns (address) {
        return IProxy(proxy).admin();
    }

    function changeProxyAdmin(address payable proxy, address next) external onlyOwner {
        IProxy(proxy).changeAdmin(next);
    }

    function upgrade(address payable proxy, address next) external onlyOwner {
        IProxy(proxy).upgradeTo(next);
    }

    function upgradeAndCall(address payable proxy, address next, bytes calldata data) external payable onlyOwner {
        IProxy(proxy).upgradeToAndCall{value: msg.value}(next, data);
    }

    function own(address next) private {
        emit OwnershipTransferred(owner, next);
        owner = next;
    }
}
