// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

/// Messages to L1. Its storage root is in every header, so that L1 can prove what was sent (specs.optimism.io: withdrawals).
contract L2ToL1MessagePasser {
    string public constant version = "1.2.0";
    uint16 public constant MESSAGE_VERSION = 1;
    uint256 private constant RECEIVE_GAS_LIMIT = 100_000;

    mapping(bytes32 => bool) public sentMessages; // slot 0
    uint240 private msgNonce; // slot 1

    event MessagePassed(
        uint256 indexed nonce,
        address indexed sender,
        address indexed target,
        uint256 value,
        uint256 gasLimit,
        bytes data,
        bytes32 withdrawalHash
    );
    event WithdrawerBalanceBurnt(uint256 indexed amount);

    receive() external payable {
        initiateWithdrawal(msg.sender, RECEIVE_GAS_LIMIT, "");
    }

    /// What was withdrawn exists on L1 again: here it may vanish. Anybody may do it.
    function burn() external {
        uint256 balance = address(this).balance;
        new Burner{value: balance}();
        emit WithdrawerBalanceBurnt(balance);
    }

    function initiateWithdrawal(address target, uint256 gasLimit, bytes memory data) public payable {
        uint256 nonce = messageNonce();
        bytes32 withdrawalHash = keccak256(abi.encode(nonce, msg.sender, target, msg.value, gasLimit, data));
        sentMessages[withdrawalHash] = true;
        emit MessagePassed(nonce, msg.sender, target, msg.value, gasLimit, data, withdrawalHash);
        msgNonce++;
    }

    /// The version stands in the two upper bytes.
    function messageNonce() public view returns (uint256) {
        return uint256(MESSAGE_VERSION) << 240 | msgNonce;
    }
}

/// Ends with itself as the receiver of its balance: made and ended in one transaction, it takes the balance with it.
contract Burner {
    constructor() payable {
        selfdestruct(payable(address(this)));
    }
}
