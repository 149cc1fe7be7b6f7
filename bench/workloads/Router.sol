// SPDX-License-Identifier: MIT
pragma solidity 0.8.30;

interface IToken {
    function transferFrom(address, address, uint256) external returns (bool);
}

interface IPair {
    function token0() external view returns (address);
    function getReserves() external view returns (uint112, uint112, uint32);
    function swap(uint256, uint256, address) external;
}

/// Along a path of pairs: what comes out of it, and the swaps themselves.
contract Router {
    mapping(address => mapping(address => address)) public pairs; // slot 0

    error NoPair(address a, address b);

    function quote(uint256 amount, address[] calldata path) public view returns (uint256[] memory amounts) {
        amounts = new uint256[](path.length);
        amounts[0] = amount;
        for (uint256 i = 0; i + 1 < path.length; i++) {
            (uint256 reserveIn, uint256 reserveOut) = reserves(path[i], path[i + 1]);
            uint256 charged = amounts[i] * 997;
            amounts[i + 1] = charged * reserveOut / (reserveIn * 1000 + charged);
        }
    }

    function swap(uint256 amount, address[] calldata path, address to) external returns (uint256[] memory amounts) {
        amounts = quote(amount, path);
        IToken(path[0]).transferFrom(msg.sender, pairOf(path[0], path[1]), amount);
        for (uint256 i = 0; i + 1 < path.length; i++) {
            address pair = pairOf(path[i], path[i + 1]);
            bool isFirst = IPair(pair).token0() == path[i];
            address next = i + 2 < path.length ? pairOf(path[i + 1], path[i + 2]) : to;
            (uint256 out0, uint256 out1) = isFirst ? (uint256(0), amounts[i + 1]) : (amounts[i + 1], uint256(0));
            IPair(pair).swap(out0, out1, next);
        }
    }

    function pairOf(address a, address b) private view returns (address pair) {
        pair = a < b ? pairs[a][b] : pairs[b][a];
        if (pair == address(0)) revert NoPair(a, b);
    }

    function reserves(address a, address b) private view returns (uint256, uint256) {
        address pair = pairOf(a, b);
        (uint256 first, uint256 second,) = IPair(pair).getReserves();
        return IPair(pair).token0() == a ? (first, second) : (second, first);
    }
}
